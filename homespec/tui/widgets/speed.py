"""Tokens per second now and over the last minutes, with acceptance length, D and KV use under it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

from homespec.status import Status
from homespec.tui.glyphs import chart
from homespec.tui.history import History, Sample, sample_of
from homespec.tui.line import MUTED, Line, line
from homespec.tui.text import number, percent
from homespec.tui.widgets.panel import Panel
from homespec.units import format_rate

Metric = Callable[[Sample], float | None]
LABEL_WIDTH = 11
_TRACKS: tuple[tuple[str, Metric, Callable[[float | None], str]], ...] = (
    ("AL", attrgetter("acceptance_length"), lambda value: number(value, 2)),
    ("D", attrgetter("draft_length"), number),
    ("KV", attrgetter("kv_used"), percent),
)
_BOTTOMS = {"AL": 1.0}
"""An acceptance length of 1 is what plain decoding gives."""
_TOPS = {"KV": 1.0}


class SpeedPanel(Panel):
    """The numbers come from the status, the curves from the shared history."""

    def __init__(self) -> None:
        super().__init__("speed")
        self.history = History()

    def title(self, status: Status) -> str:
        return f"speed · last {self.history.span_s / 60:.0f} min"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        track_height = max((height - 1) // 7, 1)
        chart_height = max(height - 1 - len(_TRACKS) * track_height, 1)
        series = self.history.series(attrgetter("tokens_per_second"), width)
        top = max((value for value in series if value is not None), default=0.0)
        drawn = [line((row, "$primary")) for row in chart(series, chart_height, top)]
        # The history leaves out snapshots that come too soon: the numbers are those of this one.
        now = sample_of(status, 0.0)
        tracks = [part for track in _TRACKS for part in self._track(*track, now, width, track_height)]
        return [_rates(status, top, width), *drawn, *tracks]

    def _track(
        self, label: str, metric: Metric, shown: Callable[[float | None], str], now: Sample, width: int, height: int
    ) -> list[Line]:
        """A labelled curve, and beside it what the snapshot says."""
        series = self.history.series(metric, max(width - LABEL_WIDTH, 1))
        top = _TOPS.get(label) or max((value for value in series if value is not None), default=0.0)
        labels = [" " * LABEL_WIDTH] * (height - 1) + [f"{label:<3}{shown(metric(now)):>6}  "]
        rows = chart(series, height, top, _BOTTOMS.get(label, 0.0))
        return [line((name, MUTED), (row, "$primary 80%")) for name, row in zip(labels, rows, strict=True)]


def _rates(status: Status, peak: float, width: int) -> Line:
    """Parts that would be cut are left out, the least important ones first."""
    rates = status.throughput
    now = "idle" if rates.tokens_per_second is None else format_rate(rates.tokens_per_second)
    prompt = f"  prompt {number(rates.prompt_tokens_per_second)}" if rates.prompt_tokens_per_second else ""
    plain = _plain(status)
    # A column of the chart is a mean: the newest value may be above all of them.
    peak = max(peak, rates.tokens_per_second or 0.0)
    highest = f"  peak {number(peak)}" if peak else ""
    drawn = line((f"{now:<12}", "bold $text-primary"))
    for text, style in ((plain, "bold"), (prompt, MUTED), (highest, MUTED)):
        if drawn.cell_length + len(text) > width:
            break
        drawn = line(drawn, (text, style))
    return drawn


def _plain(status: Status) -> str:
    """What plain decoding would do now, by the controller's clock, and the gain over it; empty while nothing drafts."""
    rate, speculation = status.throughput.tokens_per_second, status.speculation
    controller = speculation.controller if speculation and speculation.drafter else None
    if rate is None or not controller or not controller.measured_speedup:
        return ""
    return f"  plain {number(rate / controller.measured_speedup)}, gain {number(controller.measured_speedup, 2)}×"
