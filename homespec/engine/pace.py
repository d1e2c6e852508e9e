"""How often a snapshot is taken."""

from __future__ import annotations

import time

INTERVAL_S = 0.4


class Pace:
    """Of one engine's snapshots."""

    def __init__(self) -> None:
        self._last_at = 0.0

    def is_due(self, *, force: bool) -> bool:
        """Whether to take one now, which then counts as taken. force: whatever the time."""
        now = time.monotonic()
        if not force and now - self._last_at < INTERVAL_S:
            return False
        self._last_at = now
        return True
