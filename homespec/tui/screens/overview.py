"""Everything at a glance: speed, acceptance, drafters, memory, events and requests."""

from __future__ import annotations

from collections.abc import Iterator

from textual.containers import Grid
from textual.widget import Widget

from homespec.tui.screens.view import View
from homespec.tui.watch import Watch
from homespec.tui.widgets.acceptance import AcceptancePanel
from homespec.tui.widgets.drafters import DraftersPanel
from homespec.tui.widgets.events import EventsPanel
from homespec.tui.widgets.memory import MemoryPanel
from homespec.tui.widgets.requests import RequestsPanel
from homespec.tui.widgets.speed import SpeedPanel


class OverviewView(View):
    """Six panels."""

    NAME = "overview"

    def body(self) -> Iterator[Widget]:
        with Grid(id="panels"):
            yield SpeedPanel().data_bind(View.status)
            yield AcceptancePanel().data_bind(View.status)
            yield DraftersPanel().data_bind(View.status)
            yield MemoryPanel().data_bind(View.status)
            yield EventsPanel().data_bind(View.status)
            yield RequestsPanel().data_bind(View.status)

    def fed(self, watch: Watch) -> None:
        self.query_one(SpeedPanel).history = watch.history
