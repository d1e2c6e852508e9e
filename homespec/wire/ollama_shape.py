"""Answers of Ollama's /api/chat and /api/generate. Durations are in nanoseconds."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from homespec.chat.answer_parser import Piece
from homespec.chat.harmony import make_parser
from homespec.chat.tool_format import Tools
from homespec.errors import ErrorInfo
from homespec.frames import Delta, Finished, TokenLogprob
from homespec.wire.answer import Answer, Call, read_answer
from homespec.wire.responses import extras, request_id
from homespec.wire.token_entry import token_entry

_NS_PER_MS = 1_000_000


class OllamaShape:
    """One answer. A call is sent when it is whole: Ollama's clients take its arguments as an object."""

    def __init__(
        self,
        model: str,
        *,
        is_chat: bool,
        reasoning: tuple[str, str] | None = None,
        tools: Tools | None = None,
        with_logprobs: bool = False,
    ) -> None:
        self.id = request_id("ollama")
        self._model = model
        self._is_chat = is_chat
        self._reasoning = reasoning
        self._tools = tools
        self._with_logprobs = with_logprobs
        self._parser = make_parser(reasoning, tools)
        self._calls: list[Call] = []
        self._num_calls = 0
        """That were sent."""
        self._logprobs: list[TokenLogprob] = []
        """Of tokens whose text may still be held back."""
        self._started_at = time.perf_counter_ns()

    def whole(self, choices: Sequence[Finished]) -> dict[str, Any]:
        finished = choices[0]
        answer = read_answer(finished.text, self._reasoning, self._tools)
        self._logprobs += finished.logprobs
        return {**self._part(answer), **self._end(finished)}

    def opening(self, index: int) -> list[dict[str, Any]]:
        return []

    def delta(self, index: int, frame: Delta) -> list[dict[str, Any]]:
        self._logprobs += frame.logprobs
        return self._parts(self._parser.push(frame.text))

    def ending(self, index: int, frame: Finished) -> list[dict[str, Any]]:
        self._logprobs += frame.logprobs
        parts = self._parts(self._parser.finish())
        last = Answer(calls=self._take_calls())
        return [*parts, {**self._part(last), **self._end(frame)}]

    def closing(self, choices: Sequence[Finished]) -> list[dict[str, Any]]:
        return []

    def failure(self, info: ErrorInfo) -> list[dict[str, Any]]:
        return [flat_error(info)]

    def _parts(self, pieces: list[Piece]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for piece in pieces:
            answer = Answer()
            match piece.kind:
                case "call":
                    answer.calls = self._take_calls()
                    self._calls = [Call(piece.text)]
                    if not answer.calls:
                        continue
                case "arguments":
                    self._calls[-1].arguments += piece.text
                    continue
                case _:
                    answer.add(piece)
            parts.append({**self._part(answer), "done": False})
        return parts

    def _take_calls(self) -> list[Call]:
        taken, self._calls = self._calls, []
        return taken

    def _part(self, answer: Answer) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "created_at": datetime.now(UTC).isoformat()}
        if self._is_chat:
            message: dict[str, Any] = {"role": "assistant", "content": answer.content}
            if answer.reasoning:
                message["thinking"] = answer.reasoning
            if calls := [call for call in map(self._call, answer.calls) if call]:
                message["tool_calls"] = calls
            body["message"] = message
        else:
            body["response"] = answer.content
            if answer.reasoning:
                body["thinking"] = answer.reasoning
        if self._with_logprobs:
            body["logprobs"] = [token_entry(each) for each in self._logprobs]
            self._logprobs = []
        return body

    def _call(self, call: Call) -> dict[str, Any] | None:
        """None for a call that was cut off: half an object is none. Nor is one that is nested beyond all measure."""
        try:
            arguments = json.loads(call.arguments)
        except (ValueError, RecursionError):
            return None
        # Clients tell calls of one answer apart by it, as Open WebUI does.
        index, self._num_calls = self._num_calls, self._num_calls + 1
        return {"id": call.id, "function": {"index": index, "name": call.name, "arguments": arguments}}

    def _end(self, finished: Finished) -> dict[str, Any]:
        timings = finished.timings
        return {
            "done": True,
            "done_reason": finished.finish_reason,
            "total_duration": time.perf_counter_ns() - self._started_at,
            "load_duration": 0,
            "prompt_eval_count": finished.num_prompt_tokens,
            "prompt_eval_duration": round(timings.prompt_ms * _NS_PER_MS),
            "eval_count": finished.num_output_tokens,
            "eval_duration": round(timings.predicted_ms * _NS_PER_MS),
            **extras(finished),
        }


def flat_error(info: ErrorInfo) -> dict[str, Any]:
    """Ollama's clients show `error` as it is: a text. What the OpenAI shape has inside it stands beside it."""
    return {"error": info.message, "type": info.type, "param": info.param, "code": info.code}


def loaded(model: str, *, is_chat: bool, is_kept: bool) -> dict[str, Any]:
    """The answer to a request without a question, by which clients load a model, or unload one."""
    text: dict[str, Any] = {"message": {"role": "assistant", "content": ""}} if is_chat else {"response": ""}
    head = {"model": model, "created_at": datetime.now(UTC).isoformat()}
    return {**head, **text, "done": True, "done_reason": "load" if is_kept else "unload"}
