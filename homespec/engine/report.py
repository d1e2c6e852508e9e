"""What the engine says about drafting: for everyone, and for one request."""

from __future__ import annotations

from collections.abc import Mapping

from homespec.engine.drafters.roster import AUTO, Roster
from homespec.engine.sequence import Sequence
from homespec.stats import DraftStats
from homespec.status import DraftState, SpeculationReport, SpeculationStatus


def speculation_status(roster: Roster, totals: Mapping[str, DraftStats], max_draft_tokens: int) -> SpeculationStatus:
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
