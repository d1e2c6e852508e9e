"""The daemons that are watched, one tab each: name, state, speed. Nothing at all while there is only one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from homespec.tui.line import MUTED, line
from homespec.tui.notice import LinkState
from homespec.tui.text import age
from homespec.tui.watch import Watch
from homespec.tui.widgets.header import PHASES
from homespec.units import clean, format_rate


@dataclass(frozen=True, slots=True)
class Tab:
    """One daemon in few words."""

    name: str
    sign: str
    style: str
    state: str
    is_shown: bool

    @property
    def content(self) -> Content:
        """` nas:8642 ● 24.8 tok/s `, or in brackets the one that is shown; both are as wide."""
        left, right = ("[", "]") if self.is_shown else (" ", " ")
        name = (clean(self.name), "bold" if self.is_shown else MUTED)
        return line((left, "$primary"), name, (f" {self.sign} {self.state}", self.style), (right, "$primary"))


def tab_of(watch: Watch, now_s: float, *, is_shown: bool) -> Tab:
    """What is most worth knowing of a daemon that is not on the screen."""
    sign, style, state = _state(watch, now_s)
    return Tab(watch.name, sign, style, state, is_shown)


def _state(watch: Watch, now_s: float) -> tuple[str, str, str]:
    status, stale_s = watch.latest, watch.stale_s(now_s)
    if stale_s is not None:
        return "?", "$text-warning", f"stale {age(stale_s)}"
    if status is None:
        return ("✗", "$text-error", "lost") if watch.link.state is LinkState.LOST else ("◌", MUTED, "connecting")
    sign, style = PHASES[status.phase]
    if status.phase.value != "ready":
        return sign, style, status.phase.value
    rate = status.throughput.tokens_per_second
    return sign, style, "idle" if rate is None else format_rate(rate)


class DaemonBar(Widget):
    """A tab can be clicked."""

    tabs: reactive[tuple[Tab, ...]] = reactive(())

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, index: int) -> None:
            super().__init__()
            self.index = index

    def show(self, watches: Sequence[Watch], shown: Watch, now_s: float) -> None:
        """Draw them anew where something has changed."""
        self.tabs = tuple(tab_of(watch, now_s, is_shown=watch is shown) for watch in watches)

    def watch_tabs(self, tabs: tuple[Tab, ...]) -> None:
        self.display = len(tabs) > 1

    def render(self) -> Content:
        """Scrolled so far that the one that is shown is seen."""
        first = self._first()
        more = [(f"‹{first} ", MUTED)] if first else []
        drawn = line(("n ", MUTED), *more, *(tab.content for tab in self.tabs[first:]))
        return drawn.truncate(self.content_size.width, ellipsis=True)

    def on_click(self, event: events.Click) -> None:
        first = self._first()
        edge = 2 + (len(f"‹{first} ") if first else 0)
        for index, tab in enumerate(self.tabs[first:], first):
            edge += tab.content.cell_length
            if event.x < edge:
                self.post_message(self.Chosen(index))
                return

    def _first(self) -> int:
        """Of the tabs that are drawn."""
        shown = next((index for index, tab in enumerate(self.tabs) if tab.is_shown), 0)
        first = 0
        while first < shown and sum(tab.content.cell_length for tab in self.tabs[first : shown + 1]) > self._room:
            first += 1
        return first

    @property
    def _room(self) -> int:
        return self.content_size.width - len("n ‹99 ")
