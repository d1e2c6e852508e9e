"""Engines that die soon after their start: how long to wait before the next, and when to give up."""

from __future__ import annotations

FIRST_BACKOFF_S = 0.25
MAX_BACKOFF_S = 30.0
MAX_FAST_FAILURES = 5
FAST_FAILURE_S = 60.0
"""An engine that lived longer than this after it was ready has not failed fast."""


class FastFailures:
    """How many in a row."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, ready_for_s: float) -> None:
        """An engine has died that was ready for so many seconds."""
        self.count = 1 if ready_for_s > FAST_FAILURE_S else self.count + 1

    def forget(self) -> None:
        self.count = 0

    @property
    def is_hopeless(self) -> bool:
        return self.count > MAX_FAST_FAILURES

    @property
    def backoff_s(self) -> float:
        """Seconds to wait before the next engine, after at least one death."""
        return min(FIRST_BACKOFF_S * 2.0 ** (self.count - 1), MAX_BACKOFF_S)
