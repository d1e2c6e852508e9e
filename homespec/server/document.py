"""What /openapi.json says of answers: the statuses, content types and headers of every endpoint."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI

from homespec.server.presence import CLIENT_GONE
from homespec.wire.generation import MAX_INT

Answers = dict[int | str, dict[str, Any]]

EVENTS = "text/event-stream"
LINES = "application/x-ndjson"
_JSON = "application/json"

OLLAMA = "/api"
"""Paths below it are Ollama's API, its errors included."""

NOTICE_HEADER = "X-Homespec-Notice"

BODY = (400, 413, 415)
"""Refusals of whatever reads a body."""
ENGINE = (CLIENT_GONE, 500, 503)
"""Failures of whatever asks the engine."""
_KEY, _HOST = 401, 403
"""Refusals of the guard."""
_NEVER_SENT = "422"
"""FastAPI's own status for a body that does not fit; here that is 400."""

_TEXT, _TEXT_OR_NULL = {"type": "string"}, {"type": ["string", "null"]}
_ERROR_FIELDS = {"message": _TEXT, "type": _TEXT, "param": _TEXT_OR_NULL, "code": _TEXT_OR_NULL}
_ERROR = {"type": "object", "properties": _ERROR_FIELDS, "required": list(_ERROR_FIELDS)}
_ERROR_BODY = {"type": "object", "properties": {"error": _ERROR}, "required": ["error"]}
_FLAT_FIELDS = {"error": _TEXT, **{name: kind for name, kind in _ERROR_FIELDS.items() if name != "message"}}
_FLAT_BODY = {"type": "object", "properties": _FLAT_FIELDS, "required": list(_FLAT_FIELDS)}

_NOTICE = {NOTICE_HEADER: {"description": "What was done differently from what was asked", "schema": _TEXT}}
_RETRY_AFTER = {"Retry-After": {"description": "Seconds", "required": True, "schema": {"type": "integer"}}}
_REASONS = {
    400: "The body is malformed, or holds a field that cannot be honoured",
    _KEY: "Keys are set, and none matched",
    _HOST: "No keys are set, and the Host header is not of this machine",
    404: "Nothing has that name",
    413: "The body is too large",
    415: "The body is not JSON",
    CLIENT_GONE: "Somebody ended this request on the server",
    500: "The model cannot be loaded, or the engine died",
    503: "The queue is full, or nothing can be asked at present",
}


class Documented(FastAPI):
    """An application whose document holds nothing that is never sent."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        for operations in document["paths"].values():
            for operation in operations.values():
                operation["responses"].pop(_NEVER_SENT, None)
        schemas = _with_whole_bounds(document["components"]["schemas"])
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        document["components"]["schemas"] = {**schemas, "Error": _ERROR_BODY, "OllamaError": _FLAT_BODY}
        return document


def answers(*errors: int, stream: str | None = None, notices: bool = False, shape: str = "Error") -> Answers:
    """All that an endpoint may answer.

    `errors`: statuses beside those of the guard; `stream`: the content type of a streamed answer; `notices`: the header
    that says what was done differently may be there; `shape`: the schema of its errors.
    """
    answer: dict[str, Any] = {}
    if stream:
        answer["content"] = {stream: {}}
    if notices:
        answer["headers"] = _NOTICE
    documented: Answers = {200: answer} if answer else {}
    return documented | {status: _error(status, shape) for status in sorted({_KEY, _HOST, *errors})}


ollama_answers = partial(answers, shape="OllamaError")
"""The same of an endpoint of Ollama's API."""


def _with_whole_bounds(value: Any) -> Any:
    """FastAPI makes floats of bounds, and so moves the largest ones out of what is taken."""
    if isinstance(value, list):
        return [_with_whole_bounds(each) for each in value]
    if not isinstance(value, dict):
        return value
    bounds = {
        key: max(-MAX_INT, min(int(bound), MAX_INT))
        for key, bound in value.items()
        if key in ("minimum", "maximum") and isinstance(bound, float) and bound.is_integer()
    }
    return {key: bounds[key] if key in bounds else _with_whole_bounds(each) for key, each in value.items()}


def _error(status: int, shape: str = "Error") -> dict[str, Any]:
    content = {_JSON: {"schema": {"$ref": f"#/components/schemas/{shape}"}}}
    said: dict[str, Any] = {"description": _REASONS[status], "content": content}
    return said | {"headers": _RETRY_AFTER} if status == 503 else said


_NOT_READY = {"description": "The target does not answer", "content": {_JSON: {}}, "headers": _RETRY_AFTER}
HEALTH: Answers = {_HOST: _error(_HOST), 503: _NOT_READY}
"""Of /health, which needs no key and has the same body whether it is ready or not."""
