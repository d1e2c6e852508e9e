"""Who may call: API keys, and while there are none, only pages and programs of this machine."""

from __future__ import annotations

import hmac
import re

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from homespec.errors import ErrorInfo
from homespec.server.errors import error_response

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN_PATHS = frozenset({"/health"})
"""Supervisors and load balancers have no key; the body names states only."""
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s\[\]/?#@:]+)(:[0-9]*)?", re.ASCII)


class Guard:
    """ASGI middleware. With keys: a bearer key on every path but /health. Without: a Host header of this machine, so
    that a web page cannot reach the server through a name it controls (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, *, keys: frozenset[str], allowed_hosts: frozenset[str] | None) -> None:
        self._app = app
        self._keys = keys
        self._allowed_hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (info := self._refusal(Request(scope))) is not None:
            await error_response(info, scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, request: Request) -> ErrorInfo | None:
        if self._keys:
            if request.scope["path"] in _OPEN_PATHS or request.method == "OPTIONS" or self._known(bearer_key(request)):
                return None
            return ErrorInfo(
                "a valid API key is needed; send it as 'Authorization: Bearer KEY'",
                401,
                "authentication_error",
                code="invalid_api_key",
            )
        host = host_name(request.headers.getlist("host"))
        if self._allowed_hosts is None or host in self._allowed_hosts:
            return None
        return ErrorInfo(
            f"host {host!r} is not served; add it to allowed_hosts or set an API key", 403, code="host_not_allowed"
        )

    def _known(self, key: str) -> bool:
        sent = key.encode("latin-1")  # as headers are decoded
        return any(hmac.compare_digest(sent, known.encode(errors="surrogateescape")) for known in self._keys)


def bearer_key(request: Request) -> str:
    """The key of the request, empty without one."""
    kind, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if kind.lower() == "bearer" else request.headers.get("x-api-key", "")


def host_name(headers: list[str]) -> str | None:
    """Name in the Host header, without port and brackets; None unless there is exactly one well-formed header."""
    if len(headers) != 1:
        return None
    match = _HOST.fullmatch(headers[0].lower())
    return match[1].strip("[]") if match else None


def allowed_host_names(bound_host: str | None, extra: tuple[str, ...]) -> frozenset[str]:
    names = _LOOPBACK_NAMES | {name.lower() for name in extra}
    return names | {bound_host.lower()} if bound_host else names
