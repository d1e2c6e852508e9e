"""The latest changes of state and their reasons, newest first."""

from __future__ import annotations

import time

from homespec.status import Event, Status
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.widgets.panel import Panel
from homespec.units import clean

_TIME_WIDTH = 9
_DAY_S = 24 * 3600


class EventsPanel(Panel):
    """Each event takes as many lines as its text needs; old ones fall off the bottom."""

    def __init__(self) -> None:
        super().__init__("events")

    def title(self, status: Status) -> str:
        return "events · newest first"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        if not status.events:
            return [line(("nothing has happened yet", MUTED))]
        drawn: list[Line] = []
        for event in reversed(status.events):
            if len(drawn) >= height:
                break
            drawn += _event_lines(event, status.time_unix, width, height - len(drawn))
        return drawn


def _event_lines(event: Event, now_unix: float, width: int, height: int) -> list[Line]:
    """On the last line that is left, an event is cut rather than wrapped."""
    text = clean(f"{event.kind}: {event.text}")
    first, *rest = wrapped(text, width - _TIME_WIDTH) if height > 1 else [Line(text)]
    stamp = f"{moment(event.time_unix, now_unix):<{_TIME_WIDTH}}"
    return [line((stamp, MUTED), first), *(line(" " * _TIME_WIDTH, part) for part in rest)]


def moment(time_unix: float, now_unix: float) -> str:
    """Local time of day; the date once it is a day old."""
    form = "%H:%M:%S" if now_unix - time_unix < _DAY_S else "%d %b"
    return time.strftime(form, time.localtime(time_unix))
