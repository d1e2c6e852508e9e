"""One streamed answer, put together from its chunks, with the times at which they came."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from homespec.client.failures import StreamCutError
from homespec.status import SpeculationReport, Timings

T = TypeVar("T")


class _Delta(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    """What a model says to itself before its answer."""
    reasoning: str | None = None
    """The same in the words of vLLM and Ollama."""


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """What a server counted; None where it does not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None

    @property
    def cached_tokens(self) -> int | None:
        return self.prompt_tokens_details.cached_tokens if self.prompt_tokens_details else None


class _Chunk(msgspec.Struct):
    """The fields of a chunk that clients need; the others are skipped."""

    choices: list[_Choice] = []
    timings: msgspec.Raw = msgspec.Raw()
    speculative: msgspec.Raw = msgspec.Raw()
    usage: msgspec.Raw = msgspec.Raw()


_decoder = msgspec.json.Decoder(_Chunk)


@dataclass(slots=True)
class Answer:
    """Grows while the stream runs, so that a cancelled answer keeps what has come."""

    asked_at_s: float = field(default_factory=time.monotonic)
    text: str = ""
    """All that the model wrote, its thinking included."""
    content: str = ""
    """The answer alone."""
    first_text: str = ""
    """What the first chunk with text brought: one token, unless the server sends several at once."""
    is_thinking: bool = False
    """What came last was thinking."""
    cancelled: bool = False
    finish_reason: str | None = None
    time_to_first_token_s: float | None = None
    time_to_last_token_s: float | None = None
    timings: Timings | None = None
    speculation: SpeculationReport | None = None
    usage: Usage | None = None
    reported: dict[str, Any] = field(default_factory=dict)
    """All of `timings` and `speculative` by name, also what this version does not know."""

    def add(self, data: str) -> str:
        """Take in one chunk; returns the text that it adds. Raises StreamCutError when it is not a chunk."""
        try:
            chunk = _decoder.decode(data)
        except msgspec.DecodeError as error:
            raise StreamCutError(f"something came that is not a chat chunk: {error}") from error
        self.timings = _lenient(chunk.timings, Timings) or self.timings
        self.speculation = _lenient(chunk.speculative, SpeculationReport) or self.speculation
        self.usage = _lenient(chunk.usage, Usage) or self.usage
        for raw in (chunk.timings, chunk.speculative):
            self.reported |= _lenient(raw, dict[str, Any]) or {}
        piece, self.is_thinking = "", False
        for choice in chunk.choices[:1]:
            content = choice.delta.content or ""
            thinking = choice.delta.reasoning_content or choice.delta.reasoning or ""
            piece = thinking + content
            self.is_thinking = bool(thinking) and not content
            self.content += content
            self.finish_reason = choice.finish_reason or self.finish_reason
        if piece:
            self.time_to_last_token_s = time.monotonic() - self.asked_at_s
            if self.time_to_first_token_s is None:
                self.time_to_first_token_s = self.time_to_last_token_s
                self.first_text = piece
        self.text += piece
        return piece


def _lenient(raw: msgspec.Raw, kind: type[T]) -> T | None:
    """The record, or None when it is absent or of a newer make: numbers must not cost the answer."""
    if bytes(raw) in (b"", b"null"):
        return None
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.DecodeError:
        return None
