"""A plan as plain values, for `--json` and for the tables. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import msgspec

from homespec.footprint import Footprint, Shares
from homespec.headroom.admission import DraftVerdict
from homespec.headroom.budget import Budget
from homespec.headroom.choice import Refusal, TargetPlan
from homespec.headroom.planner import Plan
from homespec.planning.guidelines import Guidelines

Report = dict[str, Any]


def report_of(plan: Plan, guide: Guidelines | None) -> Report:
    """Every number of the plan. Sizes are bytes, unknown is null. guide: None for a model that drafts nothing."""
    target = plan.target
    admitted = plan.admission.admitted if plan.admission else None
    drafter = admitted.footprint if admitted else None
    return {
        "model": plan.settings.model_path,
        "fits": isinstance(target, TargetPlan),
        "reason": "; ".join(target.changes) if isinstance(target, TargetPlan) else target.explain(plan.asked),
        "target": _target(target),
        "nearest": _nearest(plan),
        "warning": plan.beyond_training,
        "pools": [_pool(plan.budget, name, target.footprint, drafter) for name in _names(plan.budget)],
        "drafters": [_verdict(verdict) for verdict in plan.admission.verdicts] if plan.admission else [],
        "proposal": {**asdict(plan.proposal), "text": plan.proposal.text} if plan.proposal else None,
        "guidelines": asdict(guide) if guide else None,
        "facts": msgspec.to_builtins(plan.facts),
    }


def _target(target: TargetPlan | Refusal) -> Report:
    footprint = target.footprint
    choice = target.choice if isinstance(target, TargetPlan) else None
    return {
        "n_ctx": footprint.n_ctx,
        "kv_type": footprint.kv_type,
        "n_gpu_layers": choice.n_gpu_layers if choice else None,
        "slots": choice.slots if choice else None,
        "total_bytes": footprint.total_bytes,
        "reclaimable_bytes": footprint.reclaimable_bytes,
        "measured": footprint.measured,
        "note": footprint.note,
    }


def _nearest(plan: Plan) -> Report | None:
    if not isinstance(plan.target, Refusal) or plan.target.nearest is None:
        return None
    nearest = plan.target.nearest
    return {**_target(nearest), "flags": nearest.flags(plan.asked)}


def _names(budget: Budget) -> list[str]:
    return [pool.name for pool in budget.pools()]


def _pool(budget: Budget, name: str, target: Footprint, drafter: Footprint | None) -> Report:
    pool = next(pool for pool in budget.pools() if pool.name == name)
    footprints = [target, drafter] if drafter else [target]
    return {
        "name": name,
        "total_bytes": pool.total_bytes,
        "free_bytes": pool.free_bytes,
        "reserve_bytes": pool.reserve_bytes,
        "headroom_bytes": pool.headroom_bytes,
        "target": _shares(budget, name, target),
        "drafter": _shares(budget, name, drafter) if drafter else None,
        "headroom_after_bytes": budget.headroom_after(*footprints)[name],
    }


def _shares(budget: Budget, name: str, footprint: Footprint) -> Report:
    shares = [part for device, part in footprint.devices.items() if name in budget.draws_on(device)]
    total: Report = msgspec.structs.asdict(sum(shares, Shares()))
    return total


def _verdict(verdict: DraftVerdict) -> Report:
    choice = verdict.choice
    return {
        "path": verdict.path,
        "admitted": verdict.is_admitted,
        "reason": verdict.reason,
        "expected_speedup": verdict.expected_speedup,
        "num_draft_tokens": verdict.num_draft_tokens,
        "rho": verdict.rho,
        "total_bytes": verdict.footprint.total_bytes if verdict.footprint else None,
        "measured": verdict.footprint.measured if verdict.footprint else None,
        "n_ctx": verdict.footprint.n_ctx if choice and verdict.footprint else None,
        "kv_type": verdict.footprint.kv_type if choice and verdict.footprint else None,
        "n_gpu_layers": choice.n_gpu_layers if choice else None,
    }
