"""HEAD wherever GET is: Ollama's clients and monitors ask that way whether a server is there."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

_ENDLESS = "/events"
"""Its body never ends, and so would the request."""


class Heads:
    """ASGI middleware: asks for the answer of GET; the HTTP server leaves its body out."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD" and scope["path"] != _ENDLESS:
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
