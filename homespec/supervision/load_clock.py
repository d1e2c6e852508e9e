"""Whether a load gets on."""

from __future__ import annotations


class LoadClock:
    """Watches anything that changes while work is done."""

    def __init__(self) -> None:
        self._seen: object = None
        self._since = 0.0

    def stood_still_s(self, seen: object, now: float) -> float:
        """Seconds that `seen` has been the same. `now` is monotonic, in seconds."""
        if seen != self._seen:
            self._seen, self._since = seen, now
        return now - self._since

    def excuse(self, seconds: float, now: float) -> None:
        """For so long nobody here could have seen anything."""
        self._since = min(now, self._since + seconds)
