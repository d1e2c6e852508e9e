"""Who drafts, why, and the state and reason of every drafter there is."""

from __future__ import annotations

from itertools import chain

from homespec.status import ControllerStatus, DrafterStatus, DraftState, SpeculationStatus, Status
from homespec.tui.line import MUTED, Line, facts, line, wrapped
from homespec.tui.text import count, fit, number, percent
from homespec.tui.widgets.panel import NOT_LOADED, Panel
from homespec.units import clean

STATES = {
    DraftState.READY: ("●", "$text-success"),
    DraftState.LOADING: ("◐", "$text-accent"),
    DraftState.UNLOADING: ("◑", "$text-warning"),
    DraftState.OFF: ("○", MUTED),
}
_ORDER = list(STATES)
SHOWN_ROWS = (2, 4, 8, 16)
"""Row counts whose cost is worth a place on the screen."""
_NUMBERS_WIDTH = len("AL 12.34 100 %")


class DraftersPanel(Panel):
    """The reason of the moment, one row per drafter with those at work first, then what the answers are worth."""

    def __init__(self) -> None:
        super().__init__("drafters")

    def title(self, status: Status) -> str:
        speculation = status.speculation
        if speculation is None:
            return "drafter"
        mode = f"drafter · mode {clean(speculation.mode)} →"
        if speculation.drafter is None:
            return f"{mode} nothing drafts ({speculation.state})"
        return f"{mode} {clean(speculation.drafter)} {speculation.state} · D up to {speculation.max_draft_tokens}"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        speculation = status.speculation
        if speculation is None:
            return [line((NOT_LOADED, MUTED))]
        room_for_reason = max(height - len(speculation.drafters), 1)
        reason = wrapped(speculation.reason, width, "bold")[:room_for_reason]
        table = _table(status, speculation, height - len(reason))
        exactness = wrapped(f"{status.exactness}: {status.exactness_reason}", width - 1, MUTED)
        told = [*exactness, *_controller(speculation.controller, width - 1), *_skipped(status, width - 1)]
        return [*reason, *table, *(line(" ", each) for each in told)]


def in_order(speculation: SpeculationStatus) -> list[DrafterStatus]:
    """The selected drafter first, then by state, then as the daemon names them."""
    return sorted(
        speculation.drafters, key=lambda drafter: (drafter.name != speculation.drafter, _ORDER.index(drafter.state))
    )


def _table(status: Status, speculation: SpeculationStatus, height: int) -> list[Line]:
    """As many rows as fit; the last one names those that did not."""
    drafters = in_order(speculation)
    if len(drafters) <= height:
        return [_row(drafter, status, speculation) for drafter in drafters]
    kept = max(height - 1, 0)
    rest = ", ".join(f"{clean(drafter.name)} {drafter.state}" for drafter in drafters[kept:])
    more = f" + {len(drafters) - kept} more (d: why): {rest}"
    rows = [_row(drafter, status, speculation) for drafter in drafters[:kept]]
    return [*rows, line((more, MUTED))]


def _row(drafter: DrafterStatus, status: Status, speculation: SpeculationStatus) -> Line:
    sign, style = STATES[drafter.state]
    numbers = _numbers(drafter, status)
    pointer = "▸" if drafter.name == speculation.drafter else " "
    state = (f"{sign} {drafter.state:<10}", style)
    return line(f"{pointer}{fit(drafter.name, 8)} ", state, (numbers, MUTED), " ", clean(drafter.reason))


def _numbers(drafter: DrafterStatus, status: Status) -> str:
    """`AL 3.48  62 %`, blank for a drafter that never drafted, nothing when none ever did."""
    if not any(stats.num_drafts for stats in status.drafts.values()):
        return ""
    stats = status.drafts.get(drafter.name)
    if stats is None or not stats.num_drafts:
        return " " * _NUMBERS_WIDTH
    return f"AL {number(stats.acceptance_length, 2):>5} {percent(stats.acceptance_rate):>5}"


def _controller(controller: ControllerStatus | None, width: int) -> list[Line]:
    """What the bets are made from, and what they came to."""
    if controller is None:
        return []
    parts = [f"costs {controller.costs}"]
    if controller.plain_ms is not None:
        parts.append(f"T(1) {number(controller.plain_ms)} ms")
    parts += [f"T({rows}) {number(cost)}" for rows, cost in controller.row_costs.items() if rows in SHOWN_ROWS]
    parts += [f"{clean(name)} {number(cost, 2)}/token" for name, cost in controller.draft_costs.items()]
    if controller.measured_speedup is not None:
        parts.append(
            f"{number(controller.measured_speedup, 2)}× plain, {number(controller.predicted_speedup, 2)}× expected"
        )
    paused = [wrapped(f"{name} {reason}", width, MUTED) for name, reason in sorted(controller.paused.items())]
    return [*facts(parts, width, MUTED), *chain.from_iterable(paused)]


def _skipped(status: Status, width: int) -> list[Line]:
    skipped = sorted(status.counters.skipped_drafts.items(), key=lambda item: -item[1])
    if not skipped:
        return []
    first, *rest = (f"{reason} {count(rows)}" for reason, rows in skipped)
    return facts([f"not drafted: {first}", *rest], width, MUTED)
