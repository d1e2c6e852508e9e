"""Where the memory is, what was planned, who was let in, and what pressure did."""

from __future__ import annotations

from collections.abc import Iterator

from textual.containers import Grid
from textual.widget import Widget

from homespec.tui.screens.view import View
from homespec.tui.widgets.plan import PlanPanel
from homespec.tui.widgets.pools import PoolsPanel
from homespec.tui.widgets.pressure import PressurePanel
from homespec.tui.widgets.verdicts import VerdictsPanel


class MemoryView(View):
    """Four panels."""

    NAME = "memory"

    def body(self) -> Iterator[Widget]:
        with Grid(id="memory-panels"):
            yield PoolsPanel().data_bind(View.status)
            yield PlanPanel().data_bind(View.status)
            yield VerdictsPanel().data_bind(View.status)
            yield PressurePanel().data_bind(View.status)

    @property
    def reason(self) -> str | None:
        monitor = self.status.memory.monitor if self.status and self.status.memory else None
        return monitor.reason if monitor else None
