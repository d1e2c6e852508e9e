"""Answers of POST /v1/completions."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from homespec.errors import ErrorInfo
from homespec.frames import Delta, Finished, TokenLogprob
from homespec.wire.drafted_text import DraftedText
from homespec.wire.responses import error_body, extras, request_id, usage


class CompletionShape:
    """Text and nothing but text."""

    def __init__(
        self, model: str, *, include_usage: bool = False, with_logprobs: bool = False, with_spans: bool = False
    ) -> None:
        self.id = request_id("cmpl")
        self._head = {"id": self.id, "created": int(time.time()), "model": model, "object": "text_completion"}
        self._include_usage = include_usage
        self._with_logprobs = with_logprobs
        self._with_spans = with_spans
        self._num_sent: Counter[int] = Counter()
        self._drafted: defaultdict[int, DraftedText] = defaultdict(DraftedText)

    def whole(self, choices: Sequence[Finished]) -> dict[str, Any]:
        return {
            **self._head,
            "choices": [self._choice(index, each.text, each, each.finish_reason) for index, each in enumerate(choices)],
            "usage": usage(choices),
            **extras(choices[0]),
        }

    def opening(self, index: int) -> list[dict[str, Any]]:
        return []

    def delta(self, index: int, frame: Delta) -> list[dict[str, Any]]:
        chunk = {**self._head, "choices": [self._choice(index, frame.text, frame, None)]}
        return [chunk | self._spans(index, frame)]

    def ending(self, index: int, frame: Finished) -> list[dict[str, Any]]:
        choice = self._choice(index, "", frame, frame.finish_reason)
        return [{**self._head, "choices": [choice], **extras(frame)}]

    def closing(self, choices: Sequence[Finished]) -> list[dict[str, Any]]:
        """Sent only when asked for: no choices, so clients that index the first one must not meet it unasked."""
        return [{**self._head, "choices": [], "usage": usage(choices)}] if self._include_usage else []

    def failure(self, info: ErrorInfo) -> list[dict[str, Any]]:
        return [error_body(info)]

    def _spans(self, index: int, frame: Delta) -> dict[str, Any]:
        if not self._with_spans:
            return {}
        self._drafted[index].observe(frame.progress)
        at = self._num_sent[index]
        self._num_sent[index] += len(frame.text)
        return self._drafted[index].field(at, frame.text)

    def _choice(self, index: int, text: str, frame: Delta | Finished, reason: str | None) -> dict[str, Any]:
        logprobs = _columns(frame.logprobs) if self._with_logprobs else None
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}


def _columns(logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
    return {
        "tokens": [each.text for each in logprobs],
        "token_logprobs": [each.logprob for each in logprobs],
        "top_logprobs": [_top_by_text(each) for each in logprobs],
        "text_offset": [each.offset for each in logprobs],
    }


def _top_by_text(each: TokenLogprob) -> dict[str, float]:
    """The legacy shape is keyed by text: of tokens that read alike the likeliest counts."""
    best: dict[str, float] = {}
    for piece, logprob in each.likeliest:
        best.setdefault(piece.decode(errors="replace"), logprob)
    return best
