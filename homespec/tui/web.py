"""The dashboard in a browser: textual-serve runs `homespec top` once per page and carries its screen over a websocket.

Loopback only. A page from elsewhere must not drive it through the browser of someone who sits at this machine, so the
Host header, and the Origin of the websocket, must name this very server (DNS rebinding, cross-site websockets). And the
page loads nothing from elsewhere: textual-serve's asks for a font of a company that need not know who watches a box.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web
from textual_serve.server import Server

from homespec.errors import AddressInUse, ExitCode

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

HOST = "127.0.0.1"


class DashboardServer(Server):
    """One page, one process of its own."""

    def __init__(self, urls: Sequence[str], port: int) -> None:
        flags = [part for url in urls for part in ("--url", url)]
        command = shlex.join([sys.executable, "-P", "-m", "homespec", "top", *flags])
        super().__init__(command, host=HOST, port=port, title="homespec")
        names = (HOST, "localhost")
        self._hosts = {f"{name}:{port}" for name in names}
        self._origins = {f"http://{host}" for host in self._hosts}
        self._open: set[asyncio.Task[Any]] = set()
        """Requests that are being answered; a page's websocket is one for as long as the page is open."""
        sockets = " ".join(f"ws://{host}" for host in sorted(self._hosts))
        self._policy = (
            "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
            f"img-src 'self' data:; connect-src 'self' {sockets}; frame-ancestors 'none'"
        )

    def initialize_logging(self) -> None:
        """The daemon's own log is elsewhere, and requests for a page are no news."""

    async def on_startup(self, app: web.Application) -> None:
        print(f"homespec top is at {self.public_url}; Ctrl-C ends it", file=sys.stderr, flush=True)

    async def on_shutdown(self, app: web.Application) -> None:
        """A page that stays open must not hold up the end."""
        for task in self._open:
            task.cancel()

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._only_from_here)
        return app

    @web.middleware
    async def _only_from_here(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        origin = request.headers.get("Origin")
        if request.headers.get("Host") not in self._hosts or (origin is not None and origin not in self._origins):
            raise web.HTTPForbidden(text=f"this page is served at {self.public_url} only")
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            response = await handler(request)
        finally:
            self._open.discard(task)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = self._policy
        return response


def run(urls: Sequence[str], port: int) -> int:
    """Serve until Ctrl-C. Raises AddressInUse."""
    _check_free(port)
    DashboardServer(urls, port).serve()
    return ExitCode.OK


def _check_free(port: int) -> None:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((HOST, port))
        except OSError as error:
            raise AddressInUse(
                f"port {port} on {HOST} cannot be taken: {error.strerror}; pass another --web-port"
            ) from error
