"""Answers of POST /v1/responses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from homespec.chat.harmony import make_parser
from homespec.chat.tool_format import Tools
from homespec.errors import ErrorInfo
from homespec.frames import Delta, Finished
from homespec.wire.responses import extras, request_id
from homespec.wire.responses_output import Event, Output


class ResponsesShape:
    """One response: its items, or the events of their making, each with a number."""

    def __init__(
        self,
        model: str,
        echo: dict[str, Any],
        *,
        reasoning: tuple[str, str] | None = None,
        tools: Tools | None = None,
    ) -> None:
        self.id = request_id("resp")
        self._head = {"id": self.id, "object": "response", "created_at": int(time.time()), "model": model, **echo}
        self._parser = make_parser(reasoning, tools)
        self._output = Output()
        self._num_events = 0

    def whole(self, choices: Sequence[Finished]) -> dict[str, Any]:
        for piece in [*self._parser.push(choices[0].text), *self._parser.finish()]:
            self._output.take(piece)
        self._output.close(_item_status(choices[0]))
        return self._ended(choices[0])

    def opening(self, index: int) -> list[dict[str, Any]]:
        begun = self._response("in_progress")
        return self._numbered(
            [{"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun}]
        )

    def delta(self, index: int, frame: Delta) -> list[dict[str, Any]]:
        return self._numbered([event for piece in self._parser.push(frame.text) for event in self._output.take(piece)])

    def ending(self, index: int, frame: Finished) -> list[dict[str, Any]]:
        events = [event for piece in self._parser.finish() for event in self._output.take(piece)]
        events += self._output.close(_item_status(frame))
        response = self._ended(frame)
        return self._numbered([*events, {"type": f"response.{response['status']}", "response": response}])

    def closing(self, choices: Sequence[Finished]) -> list[dict[str, Any]]:
        return []

    def failure(self, info: ErrorInfo) -> list[dict[str, Any]]:
        error = {"code": info.code or "server_error", "message": info.message}
        response = self._response("failed") | {"error": error}
        return self._numbered([{"type": "response.failed", "response": response}])

    def _numbered(self, events: list[Event]) -> list[Event]:
        first = self._num_events
        self._num_events += len(events)
        return [{**event, "sequence_number": first + at} for at, event in enumerate(events)]

    def _response(self, status: str) -> dict[str, Any]:
        return {
            **self._head,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "output": [dict(item) for item in self._output.items],
            "usage": None,
        }

    def _ended(self, finished: Finished) -> dict[str, Any]:
        is_whole = finished.finish_reason == "stop"
        return {
            **self._response("completed" if is_whole else "incomplete"),
            "incomplete_details": None if is_whole else {"reason": "max_output_tokens"},
            "usage": {
                "input_tokens": finished.num_prompt_tokens,
                "input_tokens_details": {"cached_tokens": finished.num_cached_tokens},
                "output_tokens": finished.num_output_tokens,
                "output_tokens_details": {},
                "total_tokens": finished.num_prompt_tokens + finished.num_output_tokens,
            },
            **extras(finished),
        }


def _item_status(finished: Finished) -> str:
    return "completed" if finished.finish_reason == "stop" else "incomplete"
