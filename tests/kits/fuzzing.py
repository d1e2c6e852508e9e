"""Keeps generated requests short. schemathesis loads it as its hooks."""

from __future__ import annotations

import zlib
from typing import Any

import schemathesis

SHORT = 2
"""Tokens of an answer, and choices of a request."""
LIMITS = {
    "/v1/chat/completions": "max_tokens",
    "/v1/completions": "max_tokens",
    "/v1/responses": "max_output_tokens",
    "/api/chat": "num_predict",
    "/api/generate": "num_predict",
}
_KEPT_NAMES = 8
"""One in so many names of a model stays; nothing has it."""


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    if isinstance(case.body, dict):
        case.body = shortened(case.path, case.body)


def shortened(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The same request for few tokens, mostly of the model that is there. What is refused stays as it is."""
    body = dict(body)
    limit = LIMITS.get(path)
    if limit == "num_predict":
        options = body.get("options") or {}
        if isinstance(options, dict):
            body["options"] = options | {limit: _short(options.get(limit))}
    elif limit is not None:
        body[limit] = _short(body.get(limit))
        if "n" in body:
            body["n"] = _short(body["n"])
    if path == "/v1/chat/completions" and isinstance(messages := body.get("messages"), list):
        body["messages"] = [*map(_asked, messages[:1]), *messages[1:]]
    model = body.get("model")
    if isinstance(model, str) and zlib.crc32(model.encode(errors="replace")) % _KEPT_NAMES:
        body["model"] = "default"
    return body


def _asked(message: Any) -> Any:
    """A first message that answers no call is refused, and schemathesis makes few others."""
    is_result = isinstance(message, dict) and message.get("role") == "tool" and message.keys() <= {"role", "content"}
    return {"role": "user", "content": message.get("content") or "Hi"} if is_result else message


def _short(value: Any) -> Any:
    if value is None or value in (-1, -2):
        return SHORT
    if type(value) is float and value.is_integer():
        value = int(value)  # to schemathesis, which remembers values, 1 is 1.0
    return min(value, SHORT) if type(value) is int else value
