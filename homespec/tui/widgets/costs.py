"""T_verify as a heat strip: what a target pass costs over rows and context, and what drafts cost beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from homespec.status import ControllerStatus, Status, VerifyTable
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.text import number
from homespec.tui.widgets.panel import NOT_LOADED, Panel
from homespec.units import clean

LABEL_WIDTH = 9
CELL_WIDTH = 6
SHADES = (" ", "░", "▒", "▓", "█")
"""From cheap to dear: the shade says what the colour says."""
_STYLES = ("$text-success", "$text-success", "$text-warning", "$text-warning", "$text-error")


class CostsPanel(Panel):
    """One line per context, one cell per row count; what a pass of so many rows costs in passes of one row."""

    def __init__(self) -> None:
        super().__init__("costs")

    def title(self, status: Status) -> str:
        controller = controller_of(status)
        if controller is None:
            return "cost of a target pass"
        return f"cost of a target pass in T(1) · {controller.costs}"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        controller = controller_of(status)
        if controller is None:
            return wrapped(_absent(status), width, MUTED)
        table = controller.verify_table
        strip = _strip(table, width) if table else _short_strip(controller, width)
        return [*strip, *_facts(controller, width)]


def controller_of(status: Status) -> ControllerStatus | None:
    """What the decisions are made from; None while there is no controller."""
    return status.speculation.controller if status.speculation else None


def heat(cost: float, rows: int) -> int:
    """Place in SHADES: 0 where a pass of so many rows is as dear as one of one row, the last where rows share nothing.

    Between the two it is the share of the extra rows that is paid for: (T(rows)/T(1) - 1) / (rows - 1).
    """
    share = (cost - 1) / (rows - 1) if rows > 1 else 0.0
    return min(max(round(share * (len(SHADES) - 1)), 0), len(SHADES) - 1)


def _absent(status: Status) -> str:
    if status.speculation is None:
        return NOT_LOADED
    return "D is fixed: nothing decides by costs"


def _strip(table: VerifyTable, width: int) -> Iterator[Line]:
    places = shown_places(len(table.rows), max((width - LABEL_WIDTH) // CELL_WIDTH, 1))
    yield line((f"{'rows':<{LABEL_WIDTH}}", MUTED), (_cells(str(table.rows[place]) for place in places), MUTED))
    plain = table.ms[0][0]
    for context, costs in zip(table.contexts, table.ms, strict=True):
        cells = [_cell(costs[place] / plain, table.rows[place], costs[0] / plain) for place in places]
        yield line((f"at {context:<{LABEL_WIDTH - 3}}", MUTED), *cells)


def _short_strip(controller: ControllerStatus, width: int) -> Iterator[Line]:
    """The same from the few costs that every daemon tells."""
    costs = list(controller.row_costs.items())[: max((width - LABEL_WIDTH) // CELL_WIDTH, 1)]
    if not costs:
        yield line(("no pass was timed yet", MUTED))
        return
    yield line((f"{'rows':<{LABEL_WIDTH}}", MUTED), (_cells(str(rows) for rows, _ in costs), MUTED))
    yield line((f"{'':<{LABEL_WIDTH}}", MUTED), *(_cell(cost, rows) for rows, cost in costs))


def _cell(cost: float, rows: int, plain: float = 1.0) -> Line:
    """` ▒1.52`; the shade compares with one row in the same context."""
    place = heat(cost / plain, rows)
    return line(f"{SHADES[place]:>{CELL_WIDTH - 4}}", (f"{cost:<4.2f}"[:4], _STYLES[place]))


def _cells(texts: Iterator[str]) -> str:
    return "".join(f"{'':>{CELL_WIDTH - 4}}{text:<4}" for text in texts)


def shown_places(count: int, room: int) -> Sequence[int]:
    """At most `room` places out of `count`: the first ones, because drafts are short, and the last."""
    return range(count) if count <= room else [*range(room - 1), count - 1]


def _facts(controller: ControllerStatus, width: int) -> Iterator[Line]:
    facts = []
    if controller.plain_ms is not None:
        threads = controller.threads
        by = f" with {threads[0]} threads, {threads[1]} for a batch" if threads else ""
        facts.append(f"T(1) {number(controller.plain_ms)} ms{by}")
    if controller.measured_speedup is not None:
        expected = number(controller.predicted_speedup, 2)
        facts.append(f"{number(controller.measured_speedup, 2)}× plain by the clock, {expected}× expected")
    facts += [f"{clean(name)} {_draft_costs(controller, name)}" for name in controller.draft_costs]
    if controller.state_copy_ms is not None:
        facts.append(f"keeping the state {number(controller.state_copy_ms)} ms when a sequence drafts")
    if controller.decision_us is not None:
        facts.append(f"deciding {controller.decision_us:.0f} µs a sequence and round")
    for fact in facts:
        yield from wrapped(fact, width, MUTED)


def _draft_costs(controller: ControllerStatus, name: str) -> str:
    """`0.05 T(1) a token; D 1 0.6, 4 2.2, 16 8.6 ms`."""
    told = f"{number(controller.draft_costs[name], 2)} T(1) a token"
    by_length = controller.draft_ms.get(name, {})
    costs = ", ".join(f"{length} {number(ms)}" for length, ms in sorted(by_length.items()))
    return f"{told}; D {costs} ms" if costs else told
