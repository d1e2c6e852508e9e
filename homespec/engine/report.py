"""What the engine says about drafting: for everyone, and for one request."""

from __future__ import annotations

from collections.abc import Mapping

from homespec.engine.costs import Costs
from homespec.engine.drafters.roster import AUTO, FREE, Roster
from homespec.engine.sequence import Sequence
from homespec.stats import DraftStats
from homespec.status import ControllerStatus, DraftState, SpeculationReport, SpeculationStatus

_SHOWN_ROWS = (2, 3, 4, 6, 8, 12, 16)


def speculation_status(
    roster: Roster, totals: Mapping[str, DraftStats], max_draft_tokens: int, costs: Costs | None
) -> SpeculationStatus:
    active = roster.active()
    reason = roster.choose(AUTO).reason or (active.reason if active else "")
    return SpeculationStatus(
        mode=roster.mode,
        drafter=active.name if active else None,
        state=active.state if active else DraftState.OFF,
        reason=reason,
        max_draft_tokens=max_draft_tokens,
        drafters=roster.statuses(),
        totals=dict(totals),
        controller=None if costs is None else controller_status(costs, roster),
    )


def controller_status(costs: Costs, roster: Roster) -> ControllerStatus:
    """A small table: in a short context, as tracked up to now."""
    controller = costs.controller
    cost, tally = controller.cost, controller.tally
    plain_s, rows, drafts = None, {}, {}
    if cost.is_known:
        verify_s = cost.verify_s(0)
        plain_s = float(verify_s[1])
        rows = {count: float(verify_s[count]) / plain_s for count in _SHOWN_ROWS if count < len(verify_s)}
        names = [drafter.name for drafter in roster.drafters() if drafter.name not in FREE]
        drafts = {name: float(cost.draft_s(name, 1, 0)[1]) / plain_s for name in names}
    return ControllerStatus(
        costs=costs.source if costs.source != "unknown" or plain_s is None else "assumed",
        plain_ms=None if plain_s is None else plain_s * 1000,
        row_costs=rows,
        draft_costs=drafts,
        paused=controller.paused(),
        predicted_speedup=tally.predicted_speedup,
        measured_speedup=tally.measured_speedup,
        decision_us=tally.decision_us,
    )


def speculation_report(sequence: Sequence, roster: Roster, exactness: str) -> SpeculationReport:
    """State and reason are those of the drafter that the request would get now."""
    choice = roster.choose(sequence.request.speculation.mode)
    state, reason = DraftState.OFF, choice.reason
    if sequence.request.speculation.max_draft_tokens == 0:
        reason = "the request allows 0 draft tokens"
    elif choice.drafter is not None:
        state, reason = DraftState.READY, f"{choice.drafter.name} is ready"
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
