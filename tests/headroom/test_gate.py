"""The gate never takes more than there is, never changes what was set, and refuses only what cannot be had."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from homespec.errors import ConfigError
from homespec.footprint import HOST, Footprint
from homespec.headroom.budget import Budget, DeviceBudget
from homespec.headroom.choice import Asked, Choice, Refusal, TargetPlan
from homespec.headroom.gate import MIN_AUTO_CTX, SMALL_KV_TYPE, plan_target
from homespec.headroom.marks import WantedMarks
from homespec.units import GIB, MIB
from tests.kits.boxes import GPU, PaperModel, box, run

SMALL = PaperModel(weights_bytes=5 * GIB)
OPEN = Asked(None, None, None, slots=4, n_layer=32, has_device=False)
WITH_GPU = replace(OPEN, has_device=True)


def plan(model: PaperModel, asked: Asked, budget: Budget) -> TargetPlan | Refusal:
    device = GPU if asked.has_device else None
    return run(plan_target(asked, budget), lambda choice: model.footprint(choice, device))


def planned(model: PaperModel, asked: Asked, budget: Budget) -> TargetPlan:
    result = plan(model, asked, budget)
    assert isinstance(result, TargetPlan)
    return result


def refused(model: PaperModel, asked: Asked, budget: Budget) -> Refusal:
    result = plan(model, asked, budget)
    assert isinstance(result, Refusal)
    return result


def test_what_fits_is_left_as_it_is() -> None:
    result = planned(SMALL, OPEN, box(16))
    assert result.choice == Choice(None, "auto", -1, 4)
    assert result.changes == ()


def test_on_a_small_box_the_kv_type_goes_first() -> None:
    """8192 tokens take 1 GiB in f16 and half of it in q8_0."""
    result = planned(SMALL, OPEN, box(6.3))
    assert result.choice == Choice(8192, SMALL_KV_TYPE, -1, 4)
    [change] = result.changes
    assert "KV cache in q8_0 instead of f16" in change
    assert "GiB needed on CPU" in change


def test_then_the_context() -> None:
    result = planned(SMALL, OPEN, box(5.75))
    assert result.choice.kv_type == SMALL_KV_TYPE
    assert result.choice.n_ctx is not None
    assert MIN_AUTO_CTX <= result.choice.n_ctx < 8192
    assert any(f"from 8192 to {result.choice.n_ctx} tokens" in change for change in result.changes)
    more = replace(result.choice, n_ctx=result.choice.n_ctx + 256)
    assert box(5.75).shortage(SMALL.footprint(more)) is not None


def test_then_layers_leave_the_device() -> None:
    result = planned(SMALL, WITH_GPU, box(16, 4))
    assert 0 < result.choice.n_gpu_layers < 33
    assert result.footprint.n_ctx == 4096
    assert any(f"{result.choice.n_gpu_layers} layers on the device" in change for change in result.changes)
    one_more = replace(result.choice, n_gpu_layers=result.choice.n_gpu_layers + 1)
    assert box(16, 4).shortage(SMALL.footprint(one_more, GPU)) is not None


def test_when_box_and_device_are_both_tight_the_context_goes_too() -> None:
    result = planned(SMALL, WITH_GPU, box(3.2, 3.3))
    assert result.footprint.n_ctx >= MIN_AUTO_CTX
    assert box(3.2, 3.3).shortage(result.footprint) is None


def test_a_quantised_cache_is_not_chosen_where_flash_attention_is_off() -> None:
    result = planned(SMALL, replace(OPEN, can_quantize_kv=False), box(6.3))
    assert result.choice.kv_type == "auto"
    assert result.footprint.n_ctx < 8192


def test_memory_of_the_box_is_counted_once_where_the_device_shares_it() -> None:
    assert planned(SMALL, WITH_GPU, box(16, 12, unified=True)).choice.n_gpu_layers == -1
    assert isinstance(plan(SMALL, WITH_GPU, box(4, 4, unified=True)), Refusal)


def test_a_device_that_shares_the_box_still_has_a_limit_of_its_own() -> None:
    """Metal gives out some 12 of 16 GB."""
    result = planned(SMALL, WITH_GPU, box(16, 4, unified=True))
    assert 0 < result.choice.n_gpu_layers < 33
    assert box(16, 4, unified=True).required(result.footprint)[HOST] == result.footprint.total_bytes


def test_an_automatic_reserve_never_takes_a_small_device_away() -> None:
    assert WantedMarks().reserve(None) == 512 * MIB
    assert WantedMarks().reserve(512 * MIB) == 64 * MIB


def test_what_is_not_known_refuses_nothing() -> None:
    unknown = Budget(DeviceBudget(HOST, None, None, 512 * MIB))
    assert planned(SMALL, OPEN, unknown).changes == ()


def test_an_explicit_context_is_refused_with_the_nearest_that_fits() -> None:
    asked = replace(OPEN, n_ctx=65536)
    result = refused(SMALL, asked, box(8))
    assert result.footprint.n_ctx == 65536
    assert result.nearest is not None
    assert result.nearest.choice == replace(asked.first, n_ctx=result.nearest.choice.n_ctx, kv_type="q8_0")
    text = result.explain(asked)
    assert "13.07 GiB needed on CPU, 7.50 GiB may be used" in text
    assert "65536 tokens" in text
    assert f"--ctx {result.nearest.choice.n_ctx}" in text
    assert planned(SMALL, replace(asked, n_ctx=result.nearest.choice.n_ctx), box(8))


@pytest.mark.parametrize(
    ("asked", "budget", "flags"),
    [
        (replace(OPEN, n_ctx=8192, kv_type="f16"), box(6.3), ["--ctx"]),
        (replace(OPEN, n_ctx=256, kv_type="f16"), box(5.57), ["--kv-type q8_0"]),
        (replace(WITH_GPU, n_ctx=256, kv_type="q8_0", n_gpu_layers=33), box(16, 4), ["--gpu-layers"]),
        (replace(WITH_GPU, n_ctx=256, kv_type="q8_0", n_gpu_layers=0), box(4, 16), ["--gpu-layers"]),
    ],
)
def test_the_nearest_plan_gives_up_one_thing_if_one_is_enough(asked: Asked, budget: Budget, flags: list[str]) -> None:
    nearest = refused(SMALL, asked, budget).nearest
    assert nearest is not None
    words = nearest.flags(asked)
    assert words.count("--") == len(flags)
    assert all(flag in words for flag in flags)


def test_slots_are_suggested_last() -> None:
    states = PaperModel(weights_bytes=5 * GIB, slot_bytes=GIB)
    nearest = refused(states, replace(OPEN, n_ctx=4096), box(7.5)).nearest
    assert nearest is not None
    assert "--slots 1" in nearest.flags(replace(OPEN, n_ctx=4096))


def test_where_nothing_fits_there_is_nothing_to_suggest() -> None:
    result = refused(SMALL, OPEN, box(2))
    assert result.nearest is None
    assert "smaller model" in result.explain(OPEN)


def test_a_reserve_that_leaves_nothing_is_a_setting_at_fault() -> None:
    with pytest.raises(ConfigError, match=r"reserve_mib: a reserve of 8\.00 GiB .* CUDA0, which has 6\.00 GiB"):
        DeviceBudget(GPU, 6 * GIB, 5 * GIB, 8 * GIB)
    with pytest.raises(ConfigError, match="reserve_mib"):
        DeviceBudget(HOST, 6 * GIB, 5 * GIB, 6 * GIB)


contexts = st.one_of(st.none(), st.integers(256, 200_000))
kv_types = st.one_of(st.none(), st.sampled_from(["f16", "bf16", "q8_0", "q4_0"]))
gib = st.floats(0.6, 40, allow_nan=False)


@st.composite
def cases(draw: st.DrawFn) -> tuple[PaperModel, Asked, Budget]:
    model = PaperModel(
        weights_bytes=int(draw(gib) * GIB),
        n_layer=draw(st.integers(1, 80)),
        kv_width=draw(st.sampled_from([128, 1024, 4096])),
        slot_bytes=draw(st.sampled_from([0, 0, 48 * MIB])),
    )
    gpus = draw(st.lists(gib, max_size=1))
    layers = draw(st.one_of(st.none(), st.integers(0, model.n_layer + 1)))
    asked = Asked(
        draw(contexts), draw(kv_types), layers, draw(st.integers(1, 16)), model.n_layer, has_device=bool(gpus)
    )
    return model, asked, box(draw(gib), *gpus)


@settings(max_examples=300)
@given(cases())
@example((SMALL, replace(OPEN, n_ctx=8000), box(6.3)))
def test_no_plan_takes_more_than_there_is_or_changes_what_was_set(case: tuple[PaperModel, Asked, Budget]) -> None:
    model, asked, budget = case
    result = plan(model, asked, budget)
    if isinstance(result, Refusal):
        result_plan = result.nearest
        assert budget.shortage(model.footprint(asked.first, GPU if asked.has_device else None)) is not None
    else:
        result_plan = result
        choice = result.choice
        assert asked.n_ctx in (None, choice.n_ctx)
        assert asked.kv_type in (None, choice.kv_type)
        assert asked.n_gpu_layers in (None, choice.n_gpu_layers)
        assert choice.slots == asked.slots
        assert bool(result.changes) == (choice != asked.first)
    if result_plan is not None:
        assert budget.shortage(result_plan.footprint) is None


def alternatives(asked: Asked, full: Footprint) -> Iterator[Choice]:
    """Everything that the gate may choose for what was left open, in coarse steps."""
    contexts = [asked.n_ctx] if asked.n_ctx else [n for n in (1024, 2048, 4096, 6144, 8192) if n <= full.n_ctx]
    kv_types = [asked.kv_type] if asked.kv_type else ["auto", "q8_0"]
    layers = [asked.n_gpu_layers] if asked.n_gpu_layers is not None else [-1]
    if asked.n_gpu_layers is None and asked.has_device:
        layers = list(range(asked.n_layer + 2))
    for n_ctx, kv_type, n_gpu_layers in itertools.product(contexts, kv_types, layers):
        yield Choice(n_ctx, kv_type, n_gpu_layers, asked.slots)


@settings(max_examples=300)
@given(cases())
def test_hardly_anything_that_fits_is_refused(case: tuple[PaperModel, Asked, Budget]) -> None:
    """Whatever coarse setting fits, the gate finds one too."""
    model, asked, budget = case
    device = GPU if asked.has_device else None
    if isinstance(plan(model, asked, budget), Refusal):
        full = model.footprint(asked.first, device)
        fitting = [c for c in alternatives(asked, full) if budget.shortage(model.footprint(c, device)) is None]
        assert fitting == []
