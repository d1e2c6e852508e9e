"""Parts that answers of every shape share: usage, timings, the error object, ids."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from homespec.errors import ErrorInfo
from homespec.frames import Delta, Finished


class Shape(Protocol):
    """Builds the objects of one answer, whole or as a stream of events."""

    @property
    def id(self) -> str: ...

    def whole(self, choices: Sequence[Finished]) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        ...

    def opening(self, index: int) -> list[dict[str, Any]]:
        """Events in front of a choice."""
        ...

    def delta(self, index: int, frame: Delta) -> list[dict[str, Any]]: ...

    def ending(self, index: int, frame: Finished) -> list[dict[str, Any]]:
        """The last events of a choice."""
        ...

    def closing(self, choices: Sequence[Finished]) -> list[dict[str, Any]]:
        """Events behind the last choice."""
        ...

    def failure(self, info: ErrorInfo) -> list[dict[str, Any]]:
        """The last events of a stream that breaks."""
        ...


def request_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(12)}"


def choice_id(request: str, index: int) -> str:
    """Of one choice of a request; the first one has the request's own."""
    return f"{request}-{index}" if index else request


def is_same_request(one: str, other: str) -> bool:
    """Whether two ids are of choices of one request."""
    return one.split("-")[:2] == other.split("-")[:2]


def usage(choices: Sequence[Finished]) -> dict[str, Any]:
    """The prompt counts once, however many choices it has."""
    prompt, output = choices[0].num_prompt_tokens, sum(finished.num_output_tokens for finished in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": choices[0].num_cached_tokens},
    }


def extras(finished: Finished) -> dict[str, Any]:
    """Our own fields beside `usage`."""
    return {
        "timings": msgspec.to_builtins(finished.timings),
        "speculative": msgspec.to_builtins(finished.speculation),
    }


def error_body(info: ErrorInfo) -> dict[str, Any]:
    return {"error": {"message": info.message, "type": info.type, "param": info.param, "code": info.code}}
