"""The one table from exceptions to answers: OpenAI-shaped ones, and Ollama's under /api."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homespec.errors import ErrorInfo, RequestError
from homespec.server.document import OLLAMA
from homespec.wire.faults import fault_text, field_path
from homespec.wire.ollama_shape import flat_error
from homespec.wire.responses import error_body

_OF_A_STORE = frozenset({"/api/pull", "/api/create", "/api/copy", "/api/delete", "/api/push"})
"""What Ollama's clients ask for to change the models on disk."""

logger = logging.getLogger("homespec.server")


def error_response(info: ErrorInfo, path: str) -> JSONResponse:
    """In the shape that clients of `path` read."""
    body = flat_error(info) if path.startswith(f"{OLLAMA}/") else error_body(info)
    headers = {"Retry-After": str(info.retry_after_s)} if info.retry_after_s is not None else None
    return JSONResponse(body, status_code=info.status, headers=headers)


def install(app: FastAPI) -> None:
    """Give every failure of `app` a shape that its clients read."""
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


class Crashes:
    """ASGI middleware that ends a bug's way out: logged once, with the path, and answered like a refusal.

    Once a response has begun it cannot be answered any more: then the error goes on to the HTTP server, which logs it
    and closes the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:  # in the middle of its body
            return
        except Exception as error:
            if has_begun or scope["type"] != "http":
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            info = ErrorInfo(f"internal error: {type(error).__name__}", 500, "server_error", code="internal")
            await error_response(info, scope["path"])(scope, receive, send)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    return error_response(error.info, request.url.path)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """The first fault, with the path of its field."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    path = field_path(part for part in fault["loc"] if part != "body") or None
    info = ErrorInfo(f"{path or 'the body'}: {fault_text(fault)}", param=path)
    return error_response(info, request.url.path)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        remedy = "the API is under /v1, see /openapi.json"
        if path in _OF_A_STORE:
            remedy = "fetch models with `homespec pull`, and delete them with `homespec rm`"
        message = f"unknown path {path}; {remedy}"
        return error_response(ErrorInfo(message, 404, "not_found_error", code="not_found"), path)
    if error.status_code == 405:
        message = f"{request.method} is not allowed on {path}"
        response = error_response(ErrorInfo(message, 405, code="method_not_allowed"), path)
        response.headers.update(error.headers or {})  # Allow
        return response
    return error_response(ErrorInfo(str(error.detail), error.status_code), path)
