"""Response bodies: whole answers, chunks of a stream, and errors."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from homespec.errors import ErrorInfo
from homespec.frames import Delta, Finished, TokenLogprob


def request_id(prefix: str) -> str:
    return f"{prefix}-{secrets.token_hex(12)}"


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


class Shape:
    """Builds the objects of one answer: chat or completion, whole or in chunks."""

    def __init__(self, kind: Literal["chat", "completion"], model: str) -> None:
        self._is_chat = kind == "chat"
        self._head = {
            "id": request_id("chatcmpl" if self._is_chat else "cmpl"),
            "created": int(time.time()),
            "model": model,
        }
        self._num_chars: Counter[int] = Counter()

    @property
    def id(self) -> str:
        return str(self._head["id"])

    def whole(self, choices: Sequence[Finished], *, with_logprobs: bool) -> dict[str, Any]:
        kind = "chat.completion" if self._is_chat else "text_completion"
        return {
            **self._head,
            "object": kind,
            "choices": [self._choice(index, choice, with_logprobs) for index, choice in enumerate(choices)],
            "usage": usage(choices),
            **extras(choices[0]),
        }

    def first_chunk(self, index: int) -> dict[str, Any] | None:
        """Chat streams begin with the role."""
        return self._chunk(index, {"role": "assistant", "content": ""}) if self._is_chat else None

    def chunk(self, index: int, delta: Delta) -> dict[str, Any]:
        logprobs = self._logprobs(index, delta.logprobs) if delta.logprobs else None
        content: Any = {"content": delta.text} if self._is_chat else delta.text
        return self._chunk(index, content, logprobs=logprobs)

    def last_chunk(self, index: int, finished: Finished) -> dict[str, Any]:
        logprobs = self._logprobs(index, finished.logprobs) if finished.logprobs else None
        empty: Any = {} if self._is_chat else ""
        chunk = self._chunk(index, empty, finish_reason=finished.finish_reason, logprobs=logprobs)
        return {**chunk, **extras(finished)}

    def usage_chunk(self, choices: Sequence[Finished]) -> dict[str, Any]:
        """Sent only when asked for: no choices, so clients that index the first one must not meet it unasked."""
        return {**self._head, "object": self._chunk_kind, "choices": [], "usage": usage(choices)}

    @property
    def _chunk_kind(self) -> str:
        return "chat.completion.chunk" if self._is_chat else "text_completion"

    def _choice(self, index: int, finished: Finished, with_logprobs: bool) -> dict[str, Any]:
        choice: dict[str, Any] = {"index": index}
        if self._is_chat:
            choice["message"] = {"role": "assistant", "content": finished.text, "refusal": None}
        else:
            choice["text"] = finished.text
        logprobs = self._logprobs(index, finished.logprobs) if with_logprobs else None
        return {**choice, "logprobs": logprobs, "finish_reason": finished.finish_reason}

    def _chunk(
        self, index: int, content: Any, *, finish_reason: str | None = None, logprobs: Any = None
    ) -> dict[str, Any]:
        choice = {
            "index": index,
            "delta" if self._is_chat else "text": content,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return {**self._head, "object": self._chunk_kind, "choices": [choice]}

    def _logprobs(self, index: int, logprobs: Sequence[TokenLogprob]) -> dict[str, Any]:
        if self._is_chat:
            return {"content": [_chat_logprob(each) for each in logprobs], "refusal": None}
        offsets = []
        for each in logprobs:
            offsets.append(self._num_chars[index])
            self._num_chars[index] += len(each.text)
        return {
            "tokens": [each.text for each in logprobs],
            "token_logprobs": [each.logprob for each in logprobs],
            "top_logprobs": [_top_by_text(each) for each in logprobs],
            "text_offset": offsets,
        }


def _chat_logprob(each: TokenLogprob) -> dict[str, Any]:
    top = [
        {"token": text, "logprob": logprob, "bytes": list(text.encode())}
        for (_, logprob), text in zip(each.top, each.top_texts, strict=True)
    ]
    return {"token": each.text, "logprob": each.logprob, "bytes": list(each.text.encode()), "top_logprobs": top}


def _top_by_text(each: TokenLogprob) -> dict[str, float]:
    """The legacy shape is keyed by text: of tokens that read alike the likeliest counts."""
    best: dict[str, float] = {}
    for (_, logprob), text in zip(each.top, each.top_texts, strict=True):
        best.setdefault(text, logprob)
    return best


def error_body(info: ErrorInfo) -> dict[str, Any]:
    return {"error": {"message": info.message, "type": info.type, "param": info.param, "code": info.code}}


def field_path(parts: Iterable[Any]) -> str:
    """`messages[0].content` from ("messages", 0, "content")."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path
