"""From token bytes to text: append-only deltas, whole characters, stop strings."""

from __future__ import annotations

import codecs
from collections.abc import Sequence


class TextStream:
    """The text of one answer. What `take` has returned is final and never changes.

    Held back: the bytes of an incomplete UTF-8 character, and a tail that may be the start of a stop string. Bytes that
    can never become valid turn into replacement marks at once, so garbage does not stall the stream.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._stop = tuple(stop)
        self._longest = max((len(text) for text in self._stop), default=0)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._text = ""
        self._begins_at = 0
        self._taken = 0
        self.stopped_by: str | None = None

    def begin(self, text: str) -> None:
        """Put a text in front of the answer; stop strings are not looked for in it."""
        self._text = text
        self._begins_at = len(text)

    def push(self, piece: bytes) -> bool:
        """Add the bytes of one token; True once a stop string is complete. The text then ends in front of it."""
        return self._add(self._decoder.decode(piece))

    def finish(self) -> None:
        """No more tokens: an incomplete character becomes a replacement mark, nothing is held back any more."""
        if self.stopped_by is None:
            self._add(self._decoder.decode(b"", final=True))
        self._longest = 0

    def take(self) -> str:
        """Text that is final and has not been taken yet."""
        ready = len(self._text) if self.stopped_by else self._final_length()
        delta = self._text[self._taken : ready]
        self._taken = max(ready, self._taken)
        return delta

    @property
    def num_taken(self) -> int:
        """Characters that `take` has returned so far."""
        return self._taken

    @property
    def text(self) -> str:
        """All text so far, held-back stop tails included."""
        return self._text

    def _add(self, addition: str) -> bool:
        if not addition:
            return False
        # A stop string that is new must reach into the addition.
        search_from = max(self._begins_at, len(self._text) - self._longest + 1) if self._longest else len(self._text)
        self._text += addition
        found = [(at, text) for text in self._stop if (at := self._text.find(text, search_from)) >= 0]
        if not found:
            return False
        at, self.stopped_by = min(found)
        self._text = self._text[:at]
        return True

    def _final_length(self) -> int:
        """Length without the longest tail that is a proper start of a stop string."""
        for held in range(min(self._longest - 1, len(self._text) - self._taken), 0, -1):
            tail = self._text[-held:]
            if any(text.startswith(tail) for text in self._stop):
                return len(self._text) - held
        return len(self._text)
