"""The items of a response, and the events that tell of their growth."""

from __future__ import annotations

from typing import Any

from homespec.chat.answer_parser import Piece
from homespec.wire.answer import call_id
from homespec.wire.responses import request_id

Event = dict[str, Any]


class Output:
    """Takes the pieces of an answer in order. One item is open at a time, and it is the last."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._open: str | None = None
        """Kind of the pieces that the last item takes."""

    def take(self, piece: Piece) -> list[Event]:
        events: list[Event] = []
        if piece.kind == "call" or (piece.kind != "arguments" and piece.kind != self._open):
            events += [*self.close(), *self._begin(piece)]
        if piece.kind == "call":
            return events
        self._extend(piece.text)
        kind = {
            "content": "response.output_text.delta",
            "reasoning": "response.reasoning_text.delta",
            "arguments": "response.function_call_arguments.delta",
        }[piece.kind]
        return [*events, self._event(kind, delta=piece.text)]

    def close(self, status: str = "completed") -> list[Event]:
        """End the open item, if there is one."""
        if self._open is None:
            return []
        item, kind = self.items[-1], self._open
        self._open = None
        item["status"] = status
        if kind == "call":
            done = [self._event("response.function_call_arguments.done", kind, arguments=item["arguments"])]
        else:
            part = item["content"][0]
            name = "output_text" if kind == "content" else "reasoning_text"
            done = [
                self._event(f"response.{name}.done", kind, text=part["text"]),
                self._event("response.content_part.done", kind, part=dict(part)),
            ]
        return [*done, self._item_event("response.output_item.done")]

    def _begin(self, piece: Piece) -> list[Event]:
        self._open = piece.kind
        match piece.kind:
            case "call":
                call = {"type": "function_call", "id": request_id("fc"), "call_id": call_id(), "name": piece.text}
                self.items.append({**call, "arguments": "", "status": "in_progress"})
                return [self._item_event("response.output_item.added")]
            case "reasoning":
                item: dict[str, Any] = {"type": "reasoning", "id": request_id("rs"), "summary": []}
                part: dict[str, Any] = {"type": "reasoning_text", "text": ""}
            case _:
                item = {"type": "message", "id": request_id("msg"), "role": "assistant"}
                part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self.items.append({**item, "content": [], "status": "in_progress"})
        added = self._item_event("response.output_item.added")
        self.items[-1]["content"] = [part]
        return [added, self._event("response.content_part.added", part=dict(part))]

    def _extend(self, text: str) -> None:
        if self._open == "call":
            self.items[-1]["arguments"] += text
        else:
            self.items[-1]["content"][0]["text"] += text

    def _event(self, kind: str, of: str | None = None, **fields: Any) -> Event:
        of = of or self._open
        where: dict[str, Any] = {"item_id": self.items[-1]["id"], "output_index": len(self.items) - 1}
        if of != "call":
            where["content_index"] = 0
        if kind.startswith("response.output_text."):
            where["logprobs"] = []
        return {"type": kind, **where, **fields}

    def _item_event(self, kind: str) -> Event:
        return {"type": kind, "output_index": len(self.items) - 1, "item": dict(self.items[-1])}
