"""Answers of POST /v1/chat/completions."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from homespec.chat.answer_parser import AnswerParser, Piece
from homespec.chat.harmony import make_parser
from homespec.chat.tool_format import Tools
from homespec.errors import ErrorInfo
from homespec.frames import Delta, Finished, TokenLogprob
from homespec.wire.answer import Answer, call_id, finish_reason, read_answer
from homespec.wire.drafted_text import DraftedText
from homespec.wire.responses import error_body, extras, request_id, usage
from homespec.wire.token_entry import token_entry


class ChatShape:
    """Messages with content, thinking and tool calls."""

    def __init__(
        self,
        model: str,
        *,
        reasoning: tuple[str, str] | None = None,
        tools: Tools | None = None,
        include_usage: bool = False,
        with_logprobs: bool = False,
        with_spans: bool = False,
    ) -> None:
        self.id = request_id("chatcmpl")
        self._head = {"id": self.id, "created": int(time.time()), "model": model}
        self._reasoning = reasoning
        self._tools = tools
        self._include_usage = include_usage
        self._with_logprobs = with_logprobs
        self._with_spans = with_spans
        self._parsers: dict[int, AnswerParser] = {}
        self._drafted: dict[int, DraftedText] = {}

    def whole(self, choices: Sequence[Finished]) -> dict[str, Any]:
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [self._choice(index, choice) for index, choice in enumerate(choices)],
            "usage": usage(choices),
            **extras(choices[0]),
        }

    def opening(self, index: int) -> list[dict[str, Any]]:
        """A chat begins with the role."""
        self._parsers[index] = make_parser(self._reasoning, self._tools)
        self._drafted[index] = DraftedText()
        return [self._chunk(index, {"role": "assistant", "content": ""})]

    def delta(self, index: int, frame: Delta) -> list[dict[str, Any]]:
        self._drafted[index].observe(frame.progress)
        return self._chunks(index, self._parsers[index].push(frame.text), frame.logprobs)

    def ending(self, index: int, frame: Finished) -> list[dict[str, Any]]:
        parser = self._parsers[index]
        chunks = self._chunks(index, parser.finish(), frame.logprobs)
        reason = finish_reason(frame.finish_reason, parser.num_calls)
        return [*chunks, {**self._chunk(index, {}, finish_reason=reason), **extras(frame)}]

    def closing(self, choices: Sequence[Finished]) -> list[dict[str, Any]]:
        """Sent only when asked for: no choices, so clients that index the first one must not meet it unasked."""
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage(choices)}
        return [chunk] if self._include_usage else []

    def failure(self, info: ErrorInfo) -> list[dict[str, Any]]:
        return [error_body(info)]

    def _chunks(self, index: int, pieces: list[Piece], logprobs: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        """One per piece; logprobs go with the first, and with an empty one where there is none."""
        contents = [_delta(piece) for piece in pieces]
        if logprobs and self._with_logprobs and not contents:
            contents = [{}]
        shown = self._logprobs(logprobs) if logprobs else None
        chunks = [self._chunk(index, content, logprobs=None if at else shown) for at, content in enumerate(contents)]
        if self._with_spans:
            for chunk, piece in zip(chunks, pieces, strict=False):
                if piece.kind in ("content", "reasoning"):
                    chunk |= self._drafted[index].field(piece.at, piece.text)
        return chunks

    def _choice(self, index: int, finished: Finished) -> dict[str, Any]:
        answer = read_answer(finished.text, self._reasoning, self._tools)
        return {
            "index": index,
            "message": message(answer),
            "logprobs": self._logprobs(finished.logprobs),
            "finish_reason": finish_reason(finished.finish_reason, len(answer.calls)),
        }

    def _chunk(
        self, index: int, delta: dict[str, Any], *, finish_reason: str | None = None, logprobs: Any = None
    ) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    def _logprobs(self, logprobs: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        if not self._with_logprobs:
            return None
        return {"content": [token_entry(each) for each in logprobs], "refusal": None}


def message(answer: Answer) -> dict[str, Any]:
    """An assistant's message; content is null beside calls without any."""
    body: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
    if answer.reasoning:
        body["reasoning_content"] = answer.reasoning
    if answer.calls:
        body["content"] = answer.content or None
        body["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    return body


def _delta(piece: Piece) -> dict[str, Any]:
    """A call's first delta has its index, id, type and name; later ones its index and more of the arguments."""
    match piece.kind:
        case "content":
            return {"content": piece.text}
        case "reasoning":
            return {"reasoning_content": piece.text}
        case "call":
            function = {"name": piece.text, "arguments": ""}
            call = {"index": piece.index, "id": call_id(), "type": "function", "function": function}
            return {"tool_calls": [call]}
        case _:
            return {"tool_calls": [{"index": piece.index, "function": {"arguments": piece.text}}]}
