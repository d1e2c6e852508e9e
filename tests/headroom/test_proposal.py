"""Which copy of a target is proposed, and when none is."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.footprint import HOST, Footprint, ModelFacts, Shares
from homespec.frames import EngineSettings
from homespec.headroom.budget import Budget
from homespec.headroom.choice import Choice, TargetPlan
from homespec.headroom.proposal import WORTH, Proposal, propose
from homespec.units import GIB
from tests.kits.boxes import box

BITS = {"F16": 16.0, "Q8_0": 8.5, "Q6_K": 6.56, "Q4_K_M": 4.9}
NUM_PARAMS = 8_000_000_000
SETTINGS = EngineSettings(model_path="/m/a b.gguf", model_id="a", draft_window=1024, max_draft_tokens=16)


def facts(bits: float, *, n_embd: int = 4096) -> ModelFacts:
    size = int(NUM_PARAMS * bits / 8)
    return ModelFacts("llama", size, size, NUM_PARAMS, 32, n_embd, 14336, 128256, 131072, 32, 8, (128, 128), "draft")


def proposal(facts: ModelFacts, budget: Budget, settings: EngineSettings = SETTINGS) -> Proposal | None:
    footprint = Footprint({HOST: Shares(weights_bytes=facts.weights_bytes)}, n_ctx=8192, kv_type="f16")
    target = TargetPlan(Choice(8192, "f16", 0, 4), footprint)
    return propose(settings, facts, target, budget, None)


@pytest.mark.parametrize(("quant", "copy"), [("F16", "Q4_0"), ("Q8_0", "Q2_K"), ("Q6_K", None), ("Q4_K_M", None)])
def test_the_best_type_that_is_expected_to_pay(quant: str, copy: str | None) -> None:
    found = proposal(facts(BITS[quant]), box(64))
    assert (found.quant if found else None) == copy


def test_it_is_told_with_its_numbers_and_the_command_to_make_it() -> None:
    found = proposal(facts(BITS["F16"]), box(64))
    assert found is not None
    assert found.command == "homespec derive '/m/a b.gguf' --quant Q4_0"
    for fragment in (found.command, "4.35 GiB", "29% of the model", "4.98 GiB with its context", "1.24x at D = 1"):
        assert fragment in found.text


def test_rows_that_a_k_quant_cannot_hold_get_no_k_quant() -> None:
    assert proposal(facts(BITS["Q8_0"], n_embd=576), box(64)) is None
    assert proposal(facts(BITS["F16"], n_embd=576), box(64)) is not None


def test_what_would_not_fit_is_not_proposed() -> None:
    """Rather a smaller type; none where not even that fits."""
    target = 15 * GIB
    for free, quant in ((21, "Q4_0"), (20, "Q3_K_M"), (15.5, None)):
        found = proposal(facts(BITS["F16"]), box(free))
        assert (found.quant if found else None) == quant
        assert target < free * GIB


@given(
    bits=st.floats(2.0, 32.0),
    free=st.floats(1, 100),
    slots=st.integers(1, 16),
    most=st.integers(1, 16),
)
def test_whatever_is_proposed_fits_and_is_expected_to_pay(bits: float, free: float, slots: int, most: int) -> None:
    settings = msgspec.structs.replace(SETTINGS, slots=slots, max_draft_tokens=most)
    model, budget = facts(bits), box(free)
    found = proposal(model, budget, settings)
    if found is None:
        return
    assert found.expected_speedup >= WORTH
    assert 0 < found.num_draft_tokens <= most
    assert found.weights_bytes < model.weights_bytes
    assert budget.host.headroom_bytes is not None
    assert model.weights_bytes + found.required_bytes <= budget.host.headroom_bytes
