"""What the driver says against a GPU that the engine uses. An engine that does nothing notices the loss of it last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class GpuDoubt:
    """A fresh engine finds out what is true; it is started once for each time that the driver begins to doubt."""

    reason: str = ""
    """Empty: none."""
    is_settled: bool = False
    """An engine has been started since: it was there for it, or it is not."""

    @property
    def open_reason(self) -> str | None:
        return None if self.is_settled else self.reason or None

    def hear(self, reason: str) -> bool:
        """What the driver says now; whether it begins to doubt."""
        begins = bool(reason) and not self.reason
        if not reason:
            self.is_settled = False
        self.reason = reason
        return begins

    def engine_started(self) -> None:
        self.is_settled = bool(self.reason)
