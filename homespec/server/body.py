"""Request bodies: bounded, JSON only, parsed strictly."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pydantic_core
from fastapi import Request, Response
from fastapi.routing import APIRoute

from homespec.errors import RequestError


class JsonRequest(Request):
    """A request whose body must be JSON of bounded size and depth."""

    max_body_bytes = 16 * 1024 * 1024

    async def body(self) -> bytes:
        """Raises RequestError 413 as soon as the limit is passed, without reading the rest."""
        if not hasattr(self, "_body"):
            parts: list[bytes] = []
            size = 0
            async for part in self.stream():
                size += len(part)
                if size > self.max_body_bytes:
                    raise RequestError(f"the body is over {self.max_body_bytes} bytes", status=413)
                parts.append(part)
            self._body = b"".join(parts)
        return self._body

    async def json(self) -> Any:
        """Raises RequestError. NaN, infinity, lone surrogates and deep nesting are refused by the parser."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not kind.endswith("+json"):
            raise RequestError(f"content type {kind or 'missing'!r}: send application/json", status=415)
        if not hasattr(self, "_json"):
            try:
                self._json = pydantic_core.from_json(await self.body(), allow_inf_nan=False)
            except ValueError as error:
                raise RequestError(f"the body is not valid JSON: {error}", code="invalid_json") from error
        return self._json


class JsonRoute(APIRoute):
    """A route that reads its body through JsonRequest."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_json(request: Request) -> Response:
            if request.method != "POST":
                return await handle(request)
            json_request = JsonRequest(request.scope, request.receive)
            json_request.max_body_bytes = request.app.state.max_body_bytes
            await json_request.json()
            return await handle(json_request)

        return handle_json
