"""What the target gets. Pure: a search that asks for the size of one choice after another and decides from the answers.

The drafter is not an argument of anything here, so no drafter can change the target's plan.

Values that were set are kept or refused. Values left automatic are chosen for the target alone, in this order: a
smaller KV type, then less context down to `MIN_AUTO_CTX`, then fewer layers on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import TypeVar

from homespec.footprint import Footprint
from homespec.frames import CTX_STEP
from homespec.headroom.budget import Budget
from homespec.headroom.choice import Asked, Choice, Freedom, Refusal, TargetPlan

MIN_AUTO_CTX = 1024
"""Less context than this is never chosen, only suggested: a chat would not get far."""
ROOMY_CTX = 4096
"""Context above this is given up before a layer leaves the device, context below it after."""
SMALL_KV_TYPE = "q8_0"
"""Half the size at a loss that is hard to measure; needs flash attention."""

T = TypeVar("T")
Search = Generator[Choice, Footprint, T]
"""Yields a choice, is sent its footprint, returns a decision."""


def plan_target(asked: Asked, budget: Budget) -> Search[TargetPlan | Refusal]:
    """The best plan within what was asked, or why there is none and what is nearest."""
    wanted = yield asked.first
    shortage = budget.shortage(wanted)
    if shortage is None:
        return TargetPlan(asked.first, wanted)
    start = replace(asked.first, n_ctx=asked.n_ctx or wanted.n_ctx)
    found = yield from _first_fit(start, asked.freedom, asked, budget, floor=MIN_AUTO_CTX)
    if found is not None:
        return replace(found, changes=tuple(_changes(asked.first, wanted, found, shortage)))
    nearest = yield from _nearest(start, asked, budget)
    return Refusal(shortage, wanted, nearest)


def _first_fit(start: Choice, free: Freedom, asked: Asked, budget: Budget, *, floor: int) -> Search[TargetPlan | None]:
    """The values that are free, in their order of sacrifice; the first plan that fits."""
    assert start.n_ctx is not None
    kv_types = [start.kv_type]
    if free.kv_type and asked.can_quantize_kv:
        kv_types.append(SMALL_KV_TYPE)
    for kv_type in kv_types:
        plan = yield from _try(replace(start, kv_type=kv_type), budget)
        if plan is not None:
            return plan
    small = replace(start, kv_type=kv_types[-1])
    fewer_layers = free.n_gpu_layers and asked.has_device
    floor = min(floor, start.n_ctx)
    if free.n_ctx:
        roomy = min(start.n_ctx, max(ROOMY_CTX, floor)) if fewer_layers else floor
        plan = yield from _most_context(small, roomy, start.n_ctx, budget)
        if plan is not None:
            return plan
        small = replace(small, n_ctx=roomy)
    if not fewer_layers:
        return None
    plan = yield from _most_layers(small, asked.n_layer, budget)
    if plan is None and free.n_ctx:
        plan = yield from _most_layers(replace(small, n_ctx=floor), asked.n_layer, budget)
        if plan is not None:
            plan = yield from _most_context(plan.choice, floor, start.n_ctx, budget)
    return plan


def _nearest(start: Choice, asked: Asked, budget: Budget) -> Search[TargetPlan | None]:
    """Give up as few of the explicit values as possible: context first, then KV type, then layers, slots last."""
    free = asked.freedom
    for freedom in (
        replace(free, n_ctx=True),
        replace(free, kv_type=True),
        replace(free, n_gpu_layers=True),
        replace(free, n_ctx=True, kv_type=True),
        Freedom(True, True, True),
    ):
        plan = yield from _first_fit(start, freedom, asked, budget, floor=CTX_STEP)
        if plan is not None:
            return plan
    alone = replace(start, slots=1)
    return (yield from _first_fit(alone, Freedom(True, True, True), asked, budget, floor=CTX_STEP))


def _try(choice: Choice, budget: Budget) -> Search[TargetPlan | None]:
    footprint = yield choice
    return TargetPlan(choice, footprint) if budget.shortage(footprint) is None else None


def _most_context(choice: Choice, floor: int, ceiling: int, budget: Budget) -> Search[TargetPlan | None]:
    """The largest context from `floor` to `ceiling` that fits."""

    def fits(footprint: Footprint) -> bool:
        return budget.shortage(footprint) is None

    low, high = -(-floor // CTX_STEP), ceiling // CTX_STEP
    return (yield from _largest(low, high, lambda steps: replace(choice, n_ctx=steps * CTX_STEP), fits))


def _most_layers(choice: Choice, n_layer: int, budget: Budget) -> Search[TargetPlan | None]:
    """The most layers that fit on the devices, if the box then holds the rest; n_layer + 1 is all and the output.

    Only the devices guide the search: what they give up, the box must take.
    """

    def fits(footprint: Footprint) -> bool:
        return budget.device_shortage(footprint) is None

    plan = yield from _largest(0, n_layer + 1, lambda layers: replace(choice, n_gpu_layers=layers), fits)
    return plan if plan is not None and budget.shortage(plan.footprint) is None else None


def _largest(
    low: int, high: int, choice: Callable[[int], Choice], fits: Callable[[Footprint], bool]
) -> Search[TargetPlan | None]:
    """Bisect: more takes more. None when not even `low` fits."""
    best = None
    while low <= high:
        # The smallest first: when nothing fits, one question says so.
        middle = low if best is None else (low + high + 1) // 2
        footprint = yield choice(middle)
        if fits(footprint):
            best, low = TargetPlan(choice(middle), footprint), middle + 1
        elif best is None:
            return None
        else:
            high = middle - 1
    return best


def _changes(first: Choice, wanted: Footprint, plan: TargetPlan, shortage: str) -> Iterator[str]:
    choice, got = plan.choice, plan.footprint
    if got.n_ctx != wanted.n_ctx:
        yield f"context lowered from {wanted.n_ctx} to {got.n_ctx} tokens: {shortage}"
    if choice.kv_type != first.kv_type:
        yield f"KV cache in {choice.kv_type} instead of {wanted.kv_type}: {shortage}"
    if choice.n_gpu_layers != first.n_gpu_layers:
        yield f"{choice.n_gpu_layers} layers on the device instead of all: {shortage}"
