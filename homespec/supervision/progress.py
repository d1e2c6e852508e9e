"""Whether the engine gets on: what its heartbeats say of the decode loop."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.frames import Heartbeat


@dataclass(slots=True)
class Progress:
    """The decode loop's counter, and since when it stands still with work to do."""

    counter: int = 0
    since: float = 0.0
    busy: bool = False
    heard: float = 0.0

    def begin(self, now: float) -> None:
        """An engine is ready and has nothing to do yet."""
        self.counter, self.since, self.busy, self.heard = 0, now, False, now

    def end(self) -> None:
        """There is no engine."""
        self.begin(0.0)

    def beat(self, frame: Heartbeat, now: float) -> None:
        if frame.progress != self.counter or not frame.busy:
            self.since = now
        self.counter, self.busy, self.heard = frame.progress, frame.busy, now

    def excuse(self, seconds: float, now: float) -> None:
        """For so long nobody here could have heard anything."""
        self.since, self.heard = min(now, self.since + seconds), min(now, self.heard + seconds)

    def waited_s(self, now: float) -> float:
        """Seconds that a busy engine has made no progress, or that an engine has not spoken."""
        return max(now - self.since if self.busy else 0.0, now - self.heard)
