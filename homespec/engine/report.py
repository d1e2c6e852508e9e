"""What the engine says about drafting: for everyone, and for one request."""

from __future__ import annotations

from collections.abc import Mapping

from homespec.engine.control.cost import CostModel, Seconds
from homespec.engine.costs import Costs
from homespec.engine.drafted import GRAMMAR
from homespec.engine.drafters.choice import FREE, Choice
from homespec.engine.drafters.roster import AUTO, Roster
from homespec.engine.sequence import Sequence
from homespec.stats import DraftStats
from homespec.status import ControllerStatus, DraftState, SpeculationReport, SpeculationStatus, VerifyTable

_SHOWN_ROWS = (2, 3, 4, 6, 8, 12, 16)
_SHOWN_DEPTHS = (1, 2, 4, 8, 16)


def speculation_status(
    roster: Roster, totals: Mapping[str, DraftStats], max_draft_tokens: int, costs: Costs | None
) -> SpeculationStatus:
    active, choice = roster.active(), roster.choose(AUTO)
    reason = choice.reason or (active.reason if active else "")
    return SpeculationStatus(
        mode=roster.mode,
        drafter=active.name if active else None,
        state=active.state if active else DraftState.OFF,
        reason=reason,
        max_draft_tokens=max_draft_tokens,
        drafters=roster.statuses(),
        totals=dict(totals),
        controller=None if costs is None else controller_status(costs, roster),
        order=_order(choice, is_weighed=costs is not None),
    )


def _order(choice: Choice, *, is_weighed: bool) -> tuple[str, ...]:
    """is_weighed: the controller chooses among all that are there; else only those of the chain are asked."""
    asked = choice.drafters if is_weighed else tuple(candidate.drafter for candidate in choice.candidates)
    return (GRAMMAR, *(drafter.name for drafter in asked)) if asked else ()


def controller_status(costs: Costs, roster: Roster) -> ControllerStatus:
    """Single numbers are of a short context; all are as tracked up to now."""
    controller = costs.controller
    cost, tally = controller.cost, controller.tally
    plain_s, rows, draft_ms = None, {}, {}
    if cost.is_known:
        verify_s = cost.verify_s(0)
        plain_s = float(verify_s[1])
        rows = {count: float(verify_s[count]) / plain_s for count in _SHOWN_ROWS if count < len(verify_s)}
        names = [drafter.name for drafter in roster.drafters() if drafter.name not in FREE]
        draft_ms = {name: _by_depth(cost.draft_s(name, 1, 0)) for name in names}
    return ControllerStatus(
        costs=costs.source if costs.source != "unknown" or plain_s is None else "assumed",
        plain_ms=None if plain_s is None else plain_s * 1000,
        row_costs=rows,
        draft_costs={name: each[1] / (plain_s * 1000) for name, each in draft_ms.items()} if plain_s else {},
        paused=controller.paused(),
        predicted_speedup=tally.predicted_speedup,
        measured_speedup=tally.measured_speedup,
        decision_us=tally.decision_us,
        verify_table=_verify_table(cost),
        draft_ms=draft_ms,
        reliability=controller.reliability(),
        threads=costs.threads,
        state_copy_ms=cost.rewind_s * 1000 or None,
    )


def _verify_table(cost: CostModel) -> VerifyTable | None:
    if cost.table is None:
        return None
    rows = tuple(count for count in cost.table.rows if count <= cost.max_rows)
    lines = [cost.verify_s(context) * 1000 for context in cost.table.contexts]
    return VerifyTable(cost.table.contexts, rows, tuple(tuple(float(line[count]) for count in rows) for line in lines))


def _by_depth(draft_s: Seconds) -> dict[int, float]:
    """Milliseconds by D."""
    return {depth: float(draft_s[depth]) * 1000 for depth in _SHOWN_DEPTHS if depth < len(draft_s)}


def speculation_report(sequence: Sequence, roster: Roster, exactness: str) -> SpeculationReport:
    """State and reason are those of the drafter that the request would get now, and why it got nothing of it."""
    choice = roster.choose(sequence.request.speculation.mode)
    state, reason = DraftState.OFF, choice.reason
    if sequence.request.speculation.max_draft_tokens == 0:
        reason = "the request allows 0 draft tokens"
    elif choice.drafter is not None:
        state, reason = DraftState.READY, f"{choice.drafter.name} is ready"
        if sequence.skipped and not sequence.drafted_rounds:
            why, times = sequence.skipped.most_common(1)[0]
            reason += f", and nothing was drafted: {why} ({times} of {sequence.num_rounds} rounds)"
    return SpeculationReport(
        state=state,
        reason=reason,
        drafters=dict(sequence.drafted_rounds),
        rounds=sequence.num_rounds,
        drafted=sequence.stats.num_draft_tokens,
        accepted=sequence.stats.num_accepted_tokens,
        acceptance_length=sequence.acceptance_length,
        per_position=sequence.stats.acceptance_per_position,
        exactness=exactness,
    )
