"""Server-sent events out of bytes, wherever the network cuts them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One dispatched event."""

    data: str
    """The `data` lines, joined by newlines."""
    name: str = "message"


class SseParser:
    """Turns bytes into events; every way of cutting the same bytes gives the same events.

    Lines may end in LF, CR or CRLF. Comments and unknown fields are skipped, an event without data is not dispatched,
    and one that was not closed by an empty line stays pending. Bytes that are not UTF-8 become replacement marks.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._data: list[str] = []
        self._name = ""
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take the next bytes; returns the events that they complete."""
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        # A CR ends its line at once; the LF that may follow belongs to it.
        self._after_cr = chunk.endswith(b"\r")
        head, *tails = _LINE_END.split(chunk)
        self._pieces.append(head)
        events = []
        for tail in tails:
            event = self._take_line(b"".join(self._pieces))
            self._pieces = [tail]
            if event is not None:
                events.append(event)
        return events

    def _take_line(self, line: bytes) -> SseEvent | None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            return self._dispatch()
        field, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field == b"data":
            self._data.append(text)
        elif field == b"event":
            self._name = text
        return None

    def _dispatch(self) -> SseEvent | None:
        data, name = self._data, self._name
        self._data, self._name = [], ""
        return SseEvent("\n".join(data), name or "message") if data else None
