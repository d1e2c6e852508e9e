"""When the plain speed, which everything is compared with, has to be measured again."""

from __future__ import annotations

PLAIN_EVERY = 128
"""Rounds without a plain one before the plain speed is measured again; fewer at first, and after a surprise."""
_AT_FIRST, _AFTER_SURPRISE = 16, 4
_SURPRISE = 1.2
"""Factor between the plain speed as it was thought to be and as it is."""


class PlainTimes:
    """Counted in rounds."""

    def __init__(self) -> None:
        self._last = 0
        self._wait = _AT_FIRST

    def age(self, now: int) -> int:
        """Rounds since the last plain one."""
        return now - self._last

    def is_due(self, now: int) -> bool:
        return self.age(now) >= self._wait

    def is_overdue(self, now: int) -> bool:
        """Whatever it costs: a wrong plain speed may be what makes it look too dear."""
        return self.age(now) >= 2 * PLAIN_EVERY

    def seen(self, now: int, ratio: float) -> None:
        """A plain round took `ratio` times what it was thought to."""
        if self.is_due(now):
            as_thought = 1 / _SURPRISE < ratio < _SURPRISE
            self._wait = min(2 * self._wait, PLAIN_EVERY) if as_thought else _AFTER_SURPRISE
        self._last = now
