"""Why sequences went through rounds without a draft, and how often."""

from __future__ import annotations

from homespec.status import Status
from homespec.tui.glyphs import TRACK, bar_cells
from homespec.tui.line import FAINT, MUTED, Line, line
from homespec.tui.text import count, fit
from homespec.tui.widgets.panel import Panel

MAX_LABEL_WIDTH = 36
MAX_BAR_WIDTH = 60


class SkipsPanel(Panel):
    """The commonest reason first; bars share one scale, the sum of all."""

    def __init__(self) -> None:
        super().__init__("skips")

    def title(self, status: Status) -> str:
        total = sum(status.counters.skipped_drafts.values())
        return f"not drafted · {count(total)} of {count(total + num_drafted(status))} turns"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        skipped = sorted(status.counters.skipped_drafts.items(), key=lambda item: -item[1])
        if not skipped:
            return [line(("every turn had a draft, or there was none yet", MUTED))]
        total = sum(times for _, times in skipped)
        label_width = min(max(len(reason) for reason, _ in skipped), MAX_LABEL_WIDTH, max(width // 2, 1))
        return [_reason(reason, times, total, label_width, width) for reason, times in skipped]


def num_drafted(status: Status) -> int:
    """Times that a sequence went through a round with a draft."""
    return sum(stats.num_drafts for stats in status.drafts.values())


def _reason(reason: str, times: int, total: int, label_width: int, width: int) -> Line:
    room = min(max(width - label_width - 9, 0), MAX_BAR_WIDTH)
    filled = bar_cells(times / total, room)
    rest = (TRACK * (room - len(filled)), FAINT)
    return line(f"{fit(reason, label_width)} ", (filled, "$warning"), rest, f" {count(times):>6}")
