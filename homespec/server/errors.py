"""The one table from exceptions to OpenAI-shaped answers."""

from __future__ import annotations

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from homespec.errors import ErrorInfo, RequestError
from homespec.wire.responses import error_body, field_path

logger = logging.getLogger("homespec.server")


def error_response(info: ErrorInfo) -> JSONResponse:
    headers = {"Retry-After": str(info.retry_after_s)} if info.retry_after_s is not None else None
    return JSONResponse(error_body(info), status_code=info.status, headers=headers)


def install(app: FastAPI) -> None:
    """Give every failure of `app` the OpenAI shape."""
    app.add_exception_handler(RequestError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _crashed)


async def _refused(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestError)
    return error_response(error.info)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """The first fault, with the path of its field. The value is not repeated: it may be a prompt."""
    assert isinstance(error, RequestValidationError)
    fault = error.errors()[0]
    path = field_path(part for part in fault["loc"] if part != "body") or None
    message = str(fault["msg"])
    return error_response(ErrorInfo(f"{path or 'the body'}: {message}", param=path))


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        message = f"unknown path {request.url.path}; the API is under /v1, see /openapi.json"
        return error_response(ErrorInfo(message, 404, "not_found_error", code="not_found"))
    if error.status_code == 405:
        message = f"{request.method} is not allowed on {request.url.path}"
        return error_response(ErrorInfo(message, 405, code="method_not_allowed"))
    return error_response(ErrorInfo(str(error.detail), error.status_code))


async def _crashed(request: Request, error: Exception) -> JSONResponse:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(ErrorInfo(f"internal error: {type(error).__name__}", 500, "server_error", code="internal"))
