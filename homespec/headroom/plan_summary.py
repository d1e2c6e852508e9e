"""A plan as /status shows it. Pure."""

from __future__ import annotations

from homespec.footprint import Footprint
from homespec.headroom.admission import Admission, DraftVerdict
from homespec.headroom.choice import TargetPlan
from homespec.memory_plan import MemoryPlan, PlannedModel, Verdict


def memory_plan(target: TargetPlan, admission: Admission | None) -> MemoryPlan:
    """The sizes that were settled on, and the verdict on every candidate."""
    admitted = admission.admitted if admission else None
    drafter = admitted.footprint if admitted else None
    return MemoryPlan(
        target=_planned(target.footprint),
        drafter=None if drafter is None else _planned(drafter),
        verdicts=tuple(_verdict(verdict) for verdict in admission.verdicts) if admission else (),
        changes=target.changes,
    )


def _planned(footprint: Footprint) -> PlannedModel:
    logged = footprint.at_load
    return PlannedModel(
        weights_bytes=logged.weights_bytes,
        kv_bytes=logged.kv_bytes,
        compute_bytes=logged.compute_bytes,
        growth_bytes=footprint.growth_bytes,
        n_ctx=footprint.n_ctx,
        kv_type=footprint.kv_type,
        measured=footprint.measured,
        note=footprint.note,
    )


def _verdict(verdict: DraftVerdict) -> Verdict:
    return Verdict(
        path=verdict.path,
        is_admitted=verdict.is_admitted,
        reason=verdict.reason,
        needed_bytes=verdict.footprint.total_bytes if verdict.footprint else None,
        expected_speedup=verdict.expected_speedup,
        num_draft_tokens=verdict.num_draft_tokens,
    )
