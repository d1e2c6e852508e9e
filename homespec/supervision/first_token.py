"""How long requests wait for their first token."""

from __future__ import annotations

from collections import deque
from statistics import median

from homespec.status import FirstTokenStatus

NUM_LATEST = 100
"""The median is of so many, so that it follows a change of load or model."""


class FirstTokenTimes:
    """Of the answers that have begun."""

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=NUM_LATEST)
        self._count = 0
        self._total_s = 0.0

    def add(self, seconds: float) -> None:
        self._latest.append(seconds)
        self._count += 1
        self._total_s += seconds

    def status(self) -> FirstTokenStatus:
        if not self._latest:
            return FirstTokenStatus()
        return FirstTokenStatus(self._count, self._total_s, self._latest[-1], median(self._latest))
