"""Whether drafters keep their promise: what was taken of their tokens, beside what was expected, by confidence."""

from __future__ import annotations

from collections.abc import Iterator

from homespec.status import ReliabilityBin, Status
from homespec.tui.glyphs import TRACK, bar_cells
from homespec.tui.line import FAINT, MUTED, Line, line, wrapped
from homespec.tui.text import count, fit, percent
from homespec.tui.widgets.costs import controller_of
from homespec.tui.widgets.panel import Panel
from homespec.units import clean

MAX_BAR_WIDTH = 40
EXPECTED = "┃"
_NUMBERS_WIDTH = len(" 100 % of 12.3k")
_LABEL_WIDTH = len(" 0.98–1.00 ")


class ReliabilityPanel(Panel):
    """A bar for the share that was taken, a stroke where it was expected to end."""

    def __init__(self) -> None:
        super().__init__("reliability")

    def title(self, status: Status) -> str:
        return f"taken by confidence · {EXPECTED} expected"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        controller = controller_of(status)
        reliability = controller.reliability if controller else {}
        if not reliability:
            return wrapped("no forecast has been put to the test yet", width, MUTED)
        return [each for name, bins in reliability.items() for each in _drafter(name, bins, width)]


def _drafter(name: str, bins: tuple[ReliabilityBin, ...], width: int) -> Iterator[Line]:
    total = sum(each.count for each in bins)
    yield line((fit(name, 8), "bold"), (f" {count(total)} tokens judged", MUTED))
    for each in bins:
        yield _bin(each, width)


def _bin(each: ReliabilityBin, width: int) -> Line:
    """` 0.25–0.40 ━━━━━┃──── 48 % of 812`."""
    label = "any" if each.low is None or each.high is None else f"{each.low:.2f}–{each.high:.2f}"
    room = min(max(width - _LABEL_WIDTH - _NUMBERS_WIDTH, 0), MAX_BAR_WIDTH)
    bar = with_mark(bar_cells(each.observed, room).ljust(room, TRACK), each.expected)
    cells = [(sign, _style(sign)) for sign in bar]
    numbers = f"{percent(each.observed):>6} of {count(each.count):<5}"
    return line((f" {clean(label):<{_LABEL_WIDTH - 2}} ", MUTED), *cells, numbers)


def with_mark(bar: str, share: float) -> str:
    """The bar with a stroke in the cell where `share` of it ends."""
    if not bar:
        return bar
    place = min(max(round(share * len(bar)) - 1, 0), len(bar) - 1)
    return bar[:place] + EXPECTED + bar[place + 1 :]


def _style(sign: str) -> str:
    return {TRACK: FAINT, EXPECTED: "$warning"}.get(sign, "$success")
