"""A drafter gets what the target leaves, in the best way that fits, or stays out with numbers."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.footprint import HOST, Footprint, Shares
from homespec.headroom.admission import WINDOW_CTX, Admission, Candidate, DraftChoice, DraftVerdict, admit
from homespec.headroom.budget import Budget
from homespec.headroom.choice import Asked, Choice, Refusal, TargetPlan
from homespec.headroom.expectation import acceptance_length, expected
from homespec.headroom.gate import plan_target
from homespec.units import GIB, MIB
from tests.kits.boxes import GPU, PaperModel, box, run

TARGET = PaperModel(weights_bytes=8 * GIB)
DRAFTERS = {
    "huge": PaperModel(weights_bytes=7 * GIB),
    "half": PaperModel(weights_bytes=GIB // 2, n_layer=24, kv_width=256),
    "tiny": PaperModel(weights_bytes=100 * MIB, n_layer=8, kv_width=128),
}


def target_plan(asked: Asked, budget: Budget, model: PaperModel = TARGET) -> TargetPlan | Refusal:
    device = GPU if asked.has_device else None
    return run(plan_target(asked, budget), lambda choice: model.footprint(choice, device))


def admission(names: list[str], target: TargetPlan, budget: Budget, *, max_draft_tokens: int = 4) -> Admission:
    device = GPU if budget.devices else None

    def size(way: DraftChoice) -> Footprint | str:
        return DRAFTERS[way.path].drafting(way, target.choice, device)

    search = admit(
        [Candidate(name) for name in names], target, budget, max_draft_tokens=max_draft_tokens, can_quantize_kv=True
    )
    return run(search, size)


def settled(budget: Budget, n_ctx: int | None = 8192) -> TargetPlan:
    plan = target_plan(Asked(n_ctx, "f16", None, 4, 32, has_device=bool(budget.devices)), budget)
    assert isinstance(plan, TargetPlan)
    return plan


def admitted(names: list[str], budget: Budget) -> DraftVerdict:
    verdict = admission(names, settled(budget), budget).admitted
    assert verdict is not None
    return verdict


def test_in_full_where_the_target_is() -> None:
    verdict = admitted(["half"], box(16, 12))
    assert verdict.choice == DraftChoice("half", None, None, -1)
    assert "fits in full on the device" in verdict.reason


def test_a_bounded_window_when_the_device_is_tight() -> None:
    budget = box(2, 10.18)
    verdict = admitted(["half"], budget)
    assert verdict.choice == DraftChoice("half", WINDOW_CTX, "q8_0", -1)
    assert "in full on the device:" in verdict.reason
    assert "the target leaves" in verdict.reason


def test_the_cpu_when_the_device_is_full() -> None:
    verdict = admitted(["tiny"], box(16, 9.65))
    assert verdict.choice is not None
    assert verdict.choice.n_gpu_layers == 0


def test_a_smaller_candidate_when_the_first_does_not_fit() -> None:
    budget = box(4, 11)
    result = admission(["huge", "half", "tiny"], settled(budget), budget)
    assert [verdict.is_admitted for verdict in result.verdicts[:3]] == [False, False, True]
    assert result.admitted is not None
    assert result.admitted.path == "tiny"
    assert result.verdicts[0].reason.startswith("does not fit: in full on the device: ")
    assert "tiny is expected to gain more" in result.verdicts[1].reason


def test_the_free_ones_when_no_model_fits() -> None:
    budget = box(1.2, 9.6)
    result = admission(["huge"], settled(budget), budget)
    assert result.admitted is None
    assert result.verdicts[-1].path is None
    assert result.verdicts[-1].is_admitted


def test_none_when_nothing_may_be_drafted() -> None:
    budget = box(32)
    for drafts in ([], [next(iter(DRAFTERS))]):
        result = admission(drafts, settled(budget), budget, max_draft_tokens=0)
        assert not any(verdict.is_admitted for verdict in result.verdicts)
        assert {verdict.reason for verdict in result.verdicts} == {"max_draft_tokens is 0: nothing is drafted"}


def test_what_cannot_draft_for_the_target_is_not_even_measured() -> None:
    budget = box(32)
    search = admit(
        [Candidate("other", "token 5 differs")], settled(budget), budget, max_draft_tokens=4, can_quantize_kv=True
    )
    with pytest.raises(StopIteration) as done:
        next(search)
    assert done.value.value.verdicts[0].reason == "token 5 differs"


def asked_ways(candidate: Candidate, budget: Budget) -> list[DraftChoice]:
    """All that are tried when none fits."""
    ways: list[DraftChoice] = []

    def size(way: DraftChoice) -> str:
        ways.append(way)
        return "too large"

    run(admit([candidate], settled(budget), budget, max_draft_tokens=4, can_quantize_kv=True), size)
    return ways


def test_what_reads_the_target_follows_its_context_to_the_end() -> None:
    head = Candidate("head", follows_target=True)
    assert asked_ways(head, box(64, 24)) == [DraftChoice("head", None, None, -1), DraftChoice("head", None, None, 0)]


def test_what_lies_in_the_targets_file_lies_where_the_target_does() -> None:
    block = Candidate("block", follows_target=True, is_in_target=True)
    assert asked_ways(block, box(64, 24)) == [DraftChoice("block", None, None, -1)]
    assert asked_ways(block, box(64)) == [DraftChoice("block", None, None, 0)]


@given(st.floats(0.6, 40), st.lists(st.floats(0.6, 40), max_size=1), st.booleans())
def test_counting_the_loaded_target_in_is_the_same_as_leaving_it_out(
    host: float, gpus: list[float], unified: bool
) -> None:
    """What is let in beside a target that is loaded fits in what is free now."""
    now = box(host, *gpus, unified=unified)
    loaded = TARGET.footprint(Choice(8192, "f16", -1, 4), GPU if gpus else None)
    for model in DRAFTERS.values():
        drafter = model.drafting(DraftChoice("d", None, None, -1), Choice(8192, "f16", -1, 4), GPU if gpus else None)
        assert (now.before(loaded).shortage(loaded, drafter) is None) == (now.shortage(drafter) is None)


def test_what_the_target_has_yet_to_grow_into_is_not_given_away() -> None:
    loaded = Footprint({HOST: Shares(GIB, output_bytes=GIB)}, n_ctx=512, kv_type="f16", growth_bytes=GIB)
    drafter = Footprint({HOST: Shares(GIB)}, n_ctx=512, kv_type="f16")
    assert box(2.6).before(loaded).shortage(loaded, drafter) is None
    assert box(2.4).before(loaded).shortage(loaded, drafter) is not None


def test_what_cannot_be_measured_is_out_with_the_reason() -> None:
    budget = box(32)
    search = admit([Candidate("broken")], settled(budget), budget, max_draft_tokens=4, can_quantize_kv=True)
    result = run(search, lambda way: "broken GGUF header")
    assert result.verdicts[0].reason == "does not fit: broken GGUF header"


GRID = [
    (host, gpu, n_ctx, names)
    for host, gpu, n_ctx, names in itertools.product(
        (1.2, 3, 8, 16, 64), (None, 4, 9.5, 12, 24), (None, 2048, 16384), (["half"], ["huge", "tiny"])
    )
]


def test_no_drafter_changes_the_target_and_nothing_is_over_committed() -> None:
    """150 budgets: simulated devices x contexts x drafters."""
    admissions = refusals = 0
    for host, gpu, n_ctx, names in GRID:
        budget = box(host, *([gpu] if gpu else []))
        asked = Asked(n_ctx, None, None, 4, 32, has_device=gpu is not None)
        alone = target_plan(asked, budget)
        if isinstance(alone, Refusal):
            refusals += 1
            continue
        result = admission(names, alone, budget)
        assert target_plan(asked, budget) == alone
        assert budget.shortage(alone.footprint) is None
        if (verdict := result.admitted) is not None:
            admissions += 1
            assert verdict.footprint is not None
            assert budget.shortage(alone.footprint, verdict.footprint) is None
    assert len(GRID) >= 60
    assert admissions > 20
    assert refusals > 5


@given(st.floats(0.6, 40), st.lists(st.floats(0.6, 40), max_size=1), st.integers(256, 100_000), st.booleans())
def test_a_drafter_is_kept_out_only_when_no_way_of_loading_it_fits(
    host: float, gpus: list[float], n_ctx: int, explicit: bool
) -> None:
    budget = box(host, *gpus)
    alone = target_plan(Asked(n_ctx if explicit else None, None, None, 4, 32, has_device=bool(gpus)), budget)
    if isinstance(alone, Refusal):
        return
    verdict = admission(["half"], alone, budget).verdicts[0]
    device = GPU if gpus else None
    ways = [
        DraftChoice("half", window, kv_type, layers)
        for window, kv_type in ((None, None), (WINDOW_CTX, "q8_0"))
        for layers in ((-1, 0) if gpus and alone.choice.n_gpu_layers != 0 else (0,))
        if window is None or alone.footprint.n_ctx > WINDOW_CTX
    ]
    sizes = [DRAFTERS["half"].drafting(way, alone.choice, device) for way in ways]
    assert verdict.is_admitted == any(budget.shortage(alone.footprint, size) is None for size in sizes)


def test_the_prior_is_the_formula_of_the_articles() -> None:
    assert acceptance_length(0) == 1
    assert acceptance_length(3, 0.5) == 1.875
    assert expected(rho=0.0, max_draft_tokens=4).num_draft_tokens == 4
    assert expected(rho=1.0, max_draft_tokens=4).speedup == 1
    free, cheap, dear = (expected(rho, 8).speedup for rho in (0.0, 0.1, 0.5))
    assert free > cheap > dear >= 1
