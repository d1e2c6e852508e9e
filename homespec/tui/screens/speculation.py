"""What the bets are made from, what they are, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator

from textual.containers import Grid
from textual.widget import Widget

from homespec.tui.screens.view import View
from homespec.tui.widgets.acceptance import AcceptancePanel
from homespec.tui.widgets.costs import CostsPanel
from homespec.tui.widgets.decisions import DecisionsPanel
from homespec.tui.widgets.reliability import ReliabilityPanel
from homespec.tui.widgets.skips import SkipsPanel


class SpeculationView(View):
    """Costs above, then decisions, reliability and the reasons against drafting; acceptance where there is room."""

    NAME = "speculation"

    def body(self) -> Iterator[Widget]:
        with Grid(id="speculation-panels"):
            yield CostsPanel().data_bind(View.status)
            yield DecisionsPanel().data_bind(View.status)
            yield ReliabilityPanel().data_bind(View.status)
            yield SkipsPanel().data_bind(View.status)
            yield AcceptancePanel().data_bind(View.status)
