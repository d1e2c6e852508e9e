"""A titled block of lines: what every part of the dashboard is."""

from __future__ import annotations

from itertools import zip_longest

from textual.content import Content
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from homespec.status import Status
from homespec.tui.line import MUTED, Line

NOT_LOADED = "not known before the model is loaded"
"""What a panel says while it has nothing to draw."""


class Panel(Widget):
    """Draws `lines` of the status it is bound to, anew for every snapshot and every size.

    Subclasses are functions of the status, the width and the height; whatever exceeds the size is cut. Only lines that
    changed are painted: a dashboard must not cost the box the speed that it shows.
    """

    status: reactive[Status | None] = reactive(None, repaint=False)

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._drawn: list[Line] = []
        self._heading = name
        self.border_title = name

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        raise NotImplementedError

    def title(self, status: Status) -> str:
        raise NotImplementedError

    def watch_status(self, status: Status | None) -> None:
        if status is None:
            return
        if (heading := self.title(status)) != self._heading:
            # Setting a title paints the whole panel, even when it is the same again.
            self._heading = heading
            self.border_title = Content(heading)
        before, self._drawn = self._drawn, self._draw()
        changed = [y for y, pair in enumerate(zip_longest(before, self._drawn)) if not _is_same(*pair)]
        if changed:
            self.refresh(*(Region(0, y, self.content_size.width, 1) for y in changed))

    def on_resize(self) -> None:
        self._drawn = self._draw()
        self.refresh()

    def render(self) -> Content:
        return Content("\n").join(self._drawn)

    def render_line(self, y: int) -> Strip:
        """Without this, one line that changed would have all of them styled anew."""
        if self.text_selection is not None:
            return super().render_line(y)
        text = self._drawn[y] if y < len(self._drawn) else Content("")
        return Visual.to_strips(self, text, self.content_size.width, 1, self.visual_style, pad=True)[0]

    def _draw(self) -> list[Line]:
        width, height = self.content_size
        if self.status is None:
            return [Content.styled("no snapshot yet", MUTED)]
        return [part.truncate(width, ellipsis=True) for part in self.lines(self.status, width, height)[:height]]


def _is_same(before: Line | None, after: Line | None) -> bool:
    return before is not None and after is not None and before.is_same(after)
