"""What the pressure monitor reads and what it did."""

from __future__ import annotations

from collections.abc import Iterator

from homespec.status import MonitorStatus, Status, Transition, Watch
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.text import number, percent
from homespec.tui.widgets.events import moment
from homespec.tui.widgets.panel import Panel
from homespec.units import clean

_TIME_WIDTH = 9
_WATCHES = {
    Watch.IDLE: ("○", MUTED),
    Watch.ADMITTED: ("●", "$text-success"),
}
_OUT = ("▼", "$text-warning")


class PressurePanel(Panel):
    """Its state and readings, then the transitions, newest first, each with its reason."""

    def __init__(self) -> None:
        super().__init__("pressure")

    def title(self, status: Status) -> str:
        return "pressure · transitions, newest first"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        monitor = status.memory.monitor if status.memory else None
        if monitor is None:
            return [line(("not watched before the model is loaded", MUTED))]
        return [*_readings(monitor, width), *_transitions(monitor, status.time_unix, width)]


def _readings(monitor: MonitorStatus, width: int) -> Iterator[Line]:
    sign, style = _WATCHES.get(monitor.watch, _OUT)
    yield line((f"{sign} {monitor.watch}  ", f"bold {style}"), clean(monitor.reason))
    faults = number(monitor.major_faults_per_s)
    readings = (
        f"stalled {percent(monitor.stall_share)} · major faults {faults}/s · resident {percent(monitor.resident_share)}"
    )
    counts = " · ".join(f"{cause} {times}" for cause, times in monitor.counts.items() if times)
    yield from wrapped(f"{readings} · {counts or 'no transition yet'}", width, MUTED)


def _transitions(monitor: MonitorStatus, now_unix: float, width: int) -> Iterator[Line]:
    for transition in reversed(monitor.transitions):
        yield from _transition(transition, now_unix, width)


def _transition(transition: Transition, now_unix: float, width: int) -> Iterator[Line]:
    sign, style = _WATCHES.get(transition.watch, _OUT)
    head = line((f"{moment(transition.time_unix, now_unix):<{_TIME_WIDTH}}", MUTED), (f"{sign} ", style))
    first, *rest = wrapped(f"{transition.cause}: {transition.reason}", width - head.cell_length)
    yield line(head, first)
    for part in rest:
        yield line(" " * head.cell_length, part)
