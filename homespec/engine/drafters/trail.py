"""Hidden states of consecutive tokens that a head has not used yet."""

from __future__ import annotations

import numpy as np

from homespec.engine.llama.taps import Hidden


class Trail:
    """Rows of one sequence, by position. A gap in what is added begins it anew: what lies before is lost."""

    def __init__(self, width: int, limit: int) -> None:
        """limit: most rows that are kept, the latest; it bounds the memory while the head is not asked to draft."""
        self._limit = limit
        self.first = 0
        """Position of the first row."""
        self._rows: Hidden = np.zeros((0, width), np.float32)

    @property
    def end(self) -> int:
        """Position after the last row."""
        return self.first + len(self._rows)

    def extend(self, position: int, rows: Hidden) -> None:
        """Add rows from `position` on."""
        if position == self.end:
            rows = np.concatenate([self._rows, rows])
            position = self.first
        excess = max(0, len(rows) - self._limit)
        self.first, self._rows = position + excess, rows[excess:]

    def pad(self, position: int) -> None:
        """Put a row of zeros in front, where only the state at `position` is missing."""
        assert position == self.first - 1
        zeros = np.zeros((1, self._rows.shape[1]), np.float32)
        self.first, self._rows = position, np.concatenate([zeros, self._rows])

    def cut(self, position: int) -> None:
        """Forget the rows from `position` on."""
        self.first = min(self.first, position)
        self._rows = self._rows[: position - self.first]

    def drop(self, position: int) -> None:
        """Forget the rows before `position`."""
        count = min(max(0, position - self.first), len(self._rows))
        self.first, self._rows = self.first + count, self._rows[count:]

    def read(self, start: int, stop: int) -> Hidden:
        """Rows at positions `start` to `stop` - 1, all of which must be there."""
        assert self.first <= start <= stop <= self.end
        return self._rows[start - self.first : stop - self.first]

    def copy(self) -> Trail:
        twin = Trail(self._rows.shape[1], self._limit)
        twin.first, twin._rows = self.first, self._rows
        return twin
