"""How drafts fare: acceptance length, acceptance rate, D, and a bar for every draft position."""

from __future__ import annotations

from homespec.status import Status
from homespec.tui.glyphs import TRACK, bar_cells
from homespec.tui.line import FAINT, MUTED, Line, line
from homespec.tui.text import number, percent
from homespec.tui.widgets.panel import Panel
from homespec.units import clean

MAX_CELL_WIDTH = 60
_FRAME = len("12 100 % ")


def shown_drafter(status: Status) -> str | None:
    """The drafter at work if it has drafted, else the one that drafted most, else None."""
    drafted = {name: stats.num_drafts for name, stats in status.drafts.items() if stats.num_drafts}
    current = status.speculation.drafter if status.speculation else None
    return current if current in drafted else max(drafted, key=drafted.__getitem__, default=None)


class AcceptancePanel(Panel):
    """The first line is the last seconds; the bars are the totals of one drafter since the daemon started."""

    def __init__(self) -> None:
        super().__init__("acceptance")

    def title(self, status: Status) -> str:
        name = shown_drafter(status)
        return f"acceptance · {clean(name)} by position" if name else "acceptance"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        return [_recent(status), *_positions(status, width, height - 1)]


def _recent(status: Status) -> Line:
    rates = status.throughput
    values = (
        ("AL ", number(rates.acceptance_length, 2)),
        ("   accepted ", percent(rates.acceptance_rate)),
        ("   D ", number(rates.draft_length)),
    )
    return line(*(part for label, value in values for part in ((label, MUTED), (value, "bold"))))


def _positions(status: Status, width: int, height: int) -> list[Line]:
    """Bars in as many columns as the positions need, filled from top to bottom."""
    name = shown_drafter(status)
    shares = status.drafts[name].acceptance_per_position if name else []
    if not shares or height < 1:
        return [line(("nothing drafted yet" if name is None else "no draft token accepted yet", MUTED))]
    num_columns = -(-len(shares) // height)
    cell_width = min(width // num_columns, MAX_CELL_WIDTH)
    rows = [range(row, len(shares), height) for row in range(min(height, len(shares)))]
    return [line(*(_position(index, shares[index], cell_width) for index in row)) for row in rows]


def _position(index: int, share: float, width: int) -> Line:
    """`12 ━━━━╸──  62 % `; without the bar where only the number has room."""
    bar_width = max(width - _FRAME - 1, 0)
    filled = bar_cells(share, bar_width)
    rest = TRACK * (bar_width - len(filled))
    value = f"{percent(share):>{6 if bar_width else 5}} "
    return line((f"{index + 1:>2} ", MUTED), (filled, "$success"), (rest, FAINT), value)
