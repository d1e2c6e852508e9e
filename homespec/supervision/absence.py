"""Why no drafter with memory of its own may be loaded at present. Outlives engines."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.frames import Readmit, Withdraw


@dataclass(slots=True)
class Absence:
    """Empty reasons are none."""

    pressure: str = ""
    """Memory is short."""
    idle: str = ""
    """Nobody has asked for anything."""

    @property
    def reason(self) -> str:
        return self.pressure or self.idle

    @property
    def frame(self) -> Withdraw | Readmit:
        """What an engine is told of it."""
        return Withdraw(self.reason) if self.reason else Readmit()
