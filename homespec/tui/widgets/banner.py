"""The line under the header: trouble, progress, or the totals."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from homespec.tui.glyphs import TRACK, bar_cells
from homespec.tui.line import MUTED, line
from homespec.tui.notice import Level, Notice
from homespec.units import clean

PROGRESS_WIDTH = 24
SIGNS = {Level.CALM: "", Level.INFO: "", Level.WARNING: "! ", Level.ERROR: "✗ "}


class Banner(Widget):
    """Shows one notice; its level is a class of the widget, and a sign where it matters."""

    notice: reactive[Notice] = reactive(Notice(Level.INFO, ""))

    def watch_notice(self, before: Notice, notice: Notice) -> None:
        for level in Level:
            self.set_class(level is notice.level, f"-{level}")
        # The totals change with every snapshot and never need another height.
        if not (before.level is notice.level is Level.CALM):
            self.refresh(layout=True)

    def render(self) -> Content:
        notice = self.notice
        text = Content(SIGNS[notice.level] + clean(notice.text))
        if notice.progress is not None:
            filled = bar_cells(notice.progress, PROGRESS_WIDTH)
            text = line(filled, (TRACK * (PROGRESS_WIDTH - len(filled)), MUTED), "  ", text)
        # Trouble is told in full, the totals only as far as one line goes.
        return text.truncate(self.content_size.width, ellipsis=True) if notice.level is Level.CALM else text
