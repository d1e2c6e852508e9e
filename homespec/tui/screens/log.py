"""All events since the dashboard started, with a search and a filter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from homespec.status import Event, Status
from homespec.tui.event_log import EventLog
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.screens.view import View
from homespec.tui.text import fit
from homespec.tui.watch import Watch
from homespec.tui.widgets.events import moment
from homespec.tui.widgets.panel import Panel
from homespec.tui.widgets.rows import Rows
from homespec.units import clean

_TIME_WIDTH = 9
_KIND_WIDTH = 8


class LogView(View):
    """Oldest first; the cursor follows the newest until it is moved. The event under it is told in full below."""

    NAME = "log"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "search", key_display="/"),
        Binding("f", "next_kind", "kind"),
        Binding("escape", "clear", "all"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._log = EventLog()
        self._kind: str | None = None
        self._text = ""
        self._drawn: tuple[object, ...] = ()

    def body(self) -> Iterator[Widget]:
        with Vertical(id="events-list", classes="framed"):
            yield Rows[Event](self._row, lambda event: event, name="log", at_end=True)
        yield EventPanel().data_bind(View.status)
        yield Input(placeholder="search in the events; enter keeps it, esc drops it", id="search", compact=True)

    def on_mount(self) -> None:
        self.query_one("#search").display = False
        self.query_one(Rows).focus()

    def fed(self, watch: Watch) -> None:
        self._log = watch.log
        self._redraw()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._text = event.value
        self._redraw()

    def on_input_submitted(self) -> None:
        self.query_one(Rows).focus()
        self.query_one("#search").display = bool(self._text)

    def on_rows_moved(self) -> None:
        self.query_one(EventPanel).show(self.query_one(Rows).selected)

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.display = True
        search.focus()

    def action_next_kind(self) -> None:
        """All kinds, then one after the other."""
        kinds = [None, *self._log.kinds()]
        self._kind = kinds[(kinds.index(self._kind) + 1) % len(kinds)] if self._kind in kinds else None
        self._redraw()

    def action_clear(self) -> None:
        search = self.query_one("#search", Input)
        search.clear()
        search.display = False
        self._kind = None
        self.query_one(Rows).focus()
        self._redraw()

    @property
    def reason(self) -> str | None:
        event = self.query_one(Rows).selected
        return f"{event.kind}: {event.text}" if event else None

    def _redraw(self) -> None:
        """Only when there is something new, or other words to look for."""
        asked = (self._log, self._log.num_added, self._kind, self._text)
        if asked == self._drawn:
            return
        self._drawn = asked
        found = self._log.matching(self._kind, self._text)
        parts = [f"log · {len(found)} of {len(self._log)} events"]
        parts += [f"kind {clean(self._kind)}"] if self._kind else []
        parts += [f"with “{clean(self._text)}”"] if self._text else []
        self.entitle("#events-list", " · ".join(parts))
        self.query_one(Rows).show(found)

    def _row(self, event: Event, width: int) -> Line:
        stamp = f"{moment(event.time_unix, time.time()):<{_TIME_WIDTH}}"
        text = Content(clean(event.text))
        place = text.plain.casefold().find(self._text.casefold()) if self._text else -1
        if place >= 0:
            text = text.stylize("bold underline", place, place + len(self._text))
        return line((stamp, MUTED), f"{fit(event.kind, _KIND_WIDTH)} ", text)


class EventPanel(Panel):
    """The event under the cursor, in as many lines as it needs."""

    def __init__(self) -> None:
        super().__init__("event")
        self._event: Event | None = None

    def show(self, event: Event | None) -> None:
        self._event = event
        self.watch_status(self.status)

    def title(self, status: Status) -> str:
        return "event"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        event = self._event
        if event is None:
            return [line(("nothing here", MUTED))]
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.time_unix))
        return [line((f"{when}  ", MUTED), (clean(event.kind), "bold")), *wrapped(event.text, width)]
