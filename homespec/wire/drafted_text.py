"""Which text of a streamed answer accepted draft tokens wrote: told chunk by chunk to clients that ask for it."""

from __future__ import annotations

from typing import Any

from homespec.chat.spans import Spans
from homespec.frames import DraftProgress


class DraftedText:
    """Of one choice. The counts are those so far, under the names that the report at the end has."""

    def __init__(self) -> None:
        self._spans = Spans()
        self._rounds = self._accepted = 0

    def observe(self, progress: DraftProgress | None) -> None:
        if progress is None:
            return
        self._rounds, self._accepted = progress.rounds, progress.accepted
        for start, end in progress.spans:
            self._spans.add(start, end)

    def field(self, at: int, text: str) -> dict[str, Any]:
        """For a chunk that carries `text`, which stands at `at` in the whole answer; its spans count from its start."""
        spans = [[start - at, end - at] for start, end in self._spans.take(at, at + len(text))]
        return {"speculative": {"rounds": self._rounds, "accepted": self._accepted, "spans": spans}}
