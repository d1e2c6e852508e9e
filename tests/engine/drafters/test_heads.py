"""Heads draft what their weights imply, never change an answer, and leave no state behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest

from homespec.engine.build import build_drafter
from homespec.engine.llama.taps import Taps
from homespec.errors import DrafterError
from homespec.frames import SetDrafter
from tests.kits.drafters import RecordingDrafter
from tests.kits.engines import SCRIPTED, Driver, ask, running
from tests.kits.gguf_kit import NUM_TOKENS, follow
from tests.kits.head_pairs import (
    KINDS,
    LAYOUTS,
    RING,
    Golden,
    counts,
    golden,
    kind_of,
    pair_of,
    random_pair,
    ring,
    stop_in_the_middle,
)
from tests.kits.heads_kit import (
    BLOCK,
    LAG,
    deep_random,
    dense_markov,
    dflash_lag,
    dspark_markov,
    eagle3_markov,
    implied_acceptance,
    mtp_alone,
    mtp_markov,
    random_selector,
    selector_lag,
)
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("limit", [1, 4, 16])
@pytest.mark.parametrize("num_slots", [1, 4])
def test_an_exact_head_is_always_accepted(models: Models, layout: str, limit: int, num_slots: int) -> None:
    pair = pair_of(models, layout)
    prompts = [pair.prompt[: len(pair.prompt) - slot] for slot in range(num_slots)]
    request: dict[str, Any] = {"mode": pair.kind, "max_draft_tokens": limit, "max_tokens": 100}
    # As few cells as there can be: those that a sliding window has left behind are written anew.
    with running(pair.target, draft=pair.head, threads=1, n_ctx=1024, cached_prefixes=0) as driver:
        assert driver.drafter_status(pair.kind).state == "ready"
        answers = driver.run(*(ask(each, partition=f"{slot}", **request) for slot, each in enumerate(prompts)))
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.token_ids == follow(pair.next_token, prompt[-1], 100)
        drafted, accepted = counts(answer)
        assert drafted == accepted > 0
        assert len(answer.speculation.per_position) == min(limit, pair.most)
        # The first round follows the prompt pass, and no round goes without a draft but for the end.
        assert answer.speculation.drafters[pair.kind] >= answer.speculation.rounds - 1


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("limit", [1, 3, 8])
def test_a_head_that_is_wrong_on_a_third_is_accepted_as_often_as_that_implies(
    models: Models, layout: str, limit: int
) -> None:
    pair = pair_of(models, layout, wrong=0.3)
    truth = [*pair.prompt, *follow(pair.next_token, pair.prompt[-1], 120)]
    implied = implied_acceptance(truth, len(pair.prompt), limit, lambda n, count: pair.draft(truth, n, count))
    assert 0.2 < implied[1] / implied[0] < 0.9
    with running(pair.target, draft=pair.head, threads=1, slots=4, n_ctx=1024) as driver:
        request: dict[str, Any] = {"mode": pair.kind, "max_draft_tokens": limit, "max_tokens": 120}
        [alone] = driver.run(ask(pair.prompt, partition="alone", **request))
        assert alone.sequence.token_ids == truth
        assert counts(alone) == implied
        together = driver.run(*(ask(pair.prompt, partition=f"{index}", **request) for index in range(4)))
    for answer in together:
        assert answer.token_ids == alone.token_ids
        assert counts(answer) == implied


def test_an_mtp_block_may_lie_in_a_file_of_its_own(models: Models) -> None:
    target = models.write("mtp-0.0-target", mtp_markov(models.chain))
    with running(target, draft=models.write("mtp-alone", mtp_alone(models.chain)), threads=1) as driver:
        [answer] = driver.run(ask([5, 6], mode="mtp", max_draft_tokens=4, max_tokens=60))
        assert answer.token_ids == follow(models.chain, 6, 60)
        assert answer.speculation.accepted == answer.speculation.drafted > 40


@pytest.mark.parametrize("kind", ["eagle3", "mtp", "dspark"])
def test_more_slots_than_a_call_has_room_for_are_drafted_for_all_the_same(models: Models, kind: str) -> None:
    pair = pair_of(models, kind)
    with running(pair.target, draft=pair.head, threads=1, slots=30, n_ctx=2048) as driver:
        request: dict[str, Any] = {"mode": kind, "max_draft_tokens": 8, "max_tokens": 20}
        answers = driver.run(*(ask([5, 6, 7 + index], partition=f"{index}", **request) for index in range(30)))
        for index, answer in enumerate(answers):
            assert answer.token_ids == follow(models.chain, 7 + index, 20)
            assert answer.speculation.accepted == answer.speculation.drafted >= 14


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("num_slots", [1, 4])
def test_a_head_without_any_idea_changes_no_answer(
    models: Models, layout: str, temperature: float, num_slots: int
) -> None:
    target, head = random_pair(models, layout)
    kind = kind_of(layout)
    request: dict[str, Any] = {"max_tokens": 60, "temperature": temperature, "ignore_eos": True}
    with running(target, draft=head, threads=1) as driver:
        plain, drafted = (
            driver.run(*(ask(f"no idea {slot}", mode=mode, **request) for slot in range(num_slots)))
            for mode in ("off", kind)
        )
        assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]
        assert all(answer.speculation.drafted > 30 for answer in drafted)
        assert driver.drafter_status(kind).state == "ready"


@pytest.mark.parametrize("has_mrope", [False, True])
def test_positions_of_several_planes_are_written_as_one(models: Models, has_mrope: bool) -> None:
    target = models.write("ring", dense_markov(ring()))
    identity = np.arange(NUM_TOKENS)
    head = models.write(f"dflash-{has_mrope}", dflash_lag(identity, has_mrope=has_mrope))
    with running(target, draft=head, threads=1) as driver:
        prompt = follow(ring(), RING[0], 150)
        [answer] = driver.run(ask(prompt, mode="dflash", max_draft_tokens=5, max_tokens=60))
        drafted, accepted = counts(answer)
        assert drafted == accepted > 40


@pytest.mark.parametrize("num_slots", [1, 4])
def test_a_selector_finds_the_path_that_single_rows_miss(models: Models, num_slots: int) -> None:
    """Row by row the likeliest token is always wrong; behind its neighbour the next likely one is right."""
    next_token = ring()
    wrong = np.arange(NUM_TOKENS)
    wrong[list(RING)] = ord("z")
    target = models.write("ring", dense_markov(next_token))
    prompt = follow(next_token, RING[0], 3 * LAG)
    request: dict[str, Any] = {"mode": "dflash", "max_draft_tokens": 5, "max_tokens": 60}
    with running(target, draft=models.write("selector", selector_lag(wrong, next_token)), threads=1) as driver:
        for answer in driver.run(*(ask(prompt[slot:], partition=f"{slot}", **request) for slot in range(num_slots))):
            assert answer.token_ids == follow(next_token, prompt[-1], 60)
            assert answer.speculation.accepted == answer.speculation.drafted > 40
            assert len(answer.speculation.per_position) == BLOCK - 1
    with running(target, draft=models.write("no-selector", dflash_lag(wrong)), threads=1) as driver:
        [answer] = driver.run(ask(prompt, **request))
        assert answer.speculation.accepted == 0


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_selector_without_any_idea_changes_no_answer(models: Models, temperature: float) -> None:
    target, head = models.write("deep-random", deep_random(1)), models.write("random-selector", random_selector(2))
    with running(target, draft=head, threads=1) as driver:
        plain, drafted = (
            driver.run(ask(b"no idea", mode=mode, max_tokens=60, temperature=temperature, ignore_eos=True))[0]
            for mode in ("off", "dflash")
        )
        assert drafted.token_ids == plain.token_ids
        assert drafted.speculation.drafted > 30
        assert Golden(driver, "dflash").holds()


def test_a_head_that_doubts_itself_drafts_nothing_and_says_why(models: Models) -> None:
    target = models.write("dense-markov", dense_markov(models.chain))
    head = models.write("dspark-unsure", dspark_markov(models.chain, confidence=0.3))
    with running(target, draft=head, threads=1) as driver:
        [answer] = driver.run(ask([5, 6], mode="dspark", max_draft_tokens=4, max_tokens=30))
        assert answer.token_ids == follow(models.chain, 6, 30)
        assert answer.speculation.drafted == 0
        assert driver.scheduler.snapshot().counters.skipped_drafts["not confident"] > 25


@pytest.mark.parametrize("layout", ["dspark", "dspark-bonus"])
@pytest.mark.parametrize("num_slots", [1, 4])
def test_a_draft_ends_in_front_of_the_first_token_that_its_head_doubts(
    models: Models, layout: str, num_slots: int
) -> None:
    pair, unsure_behind = pair_of(models, layout), range(0, NUM_TOKENS, 4)
    model = dspark_markov(pair.next_token, from_anchor=layout == "dspark", unsure_behind=unsure_behind)
    truth = [*pair.prompt, *follow(pair.next_token, pair.prompt[-1], 120)]

    def sure(n: int, count: int) -> list[int]:
        drafted = pair.draft(truth, n, count)
        befores = [truth[n - 1], *drafted]
        return drafted[: next((at for at, token in enumerate(befores) if token in unsure_behind), None)]

    implied = implied_acceptance(truth, len(pair.prompt), 8, sure)
    request: dict[str, Any] = {"mode": pair.kind, "max_draft_tokens": 8, "max_tokens": 120}
    with running(pair.target, draft=models.write(f"{layout}-unsure-behind", model), threads=1, n_ctx=1024) as driver:
        recording = RecordingDrafter(driver.roster._drafters[pair.kind])
        driver.roster._drafters[pair.kind] = recording
        answers = driver.run(*(ask(pair.prompt, partition=f"{slot}", **request) for slot in range(num_slots)))
        for answer in answers:
            assert answer.sequence.token_ids == truth
            assert counts(answer) == implied
    assert {len(draft) for draft in recording.drafts} == set(range(pair.most + 1))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_is_left_of_requests_that_were_cancelled_stopped_or_preempted(models: Models, layout: str) -> None:
    with golden(models, layout, slots=3, cached_prefixes=1) as trial:
        driver, kind = trial.driver, trial.kind
        assert sum(len(draft) for draft in trial.expected[1]) >= 10
        cancelled = driver.submit(ask(b"cancelled" * 5, mode=kind, max_tokens=200, ignore_eos=True))
        for _ in range(6):
            driver.scheduler.step()
        driver.scheduler.cancel(cancelled.id)
        assert trial.holds()
        stop_in_the_middle(driver, kind)
        assert trial.holds()
        preemptions = driver.scheduler.counters.preemptions
        driver.run(*(ask([70 + index] * 60, mode=kind, max_tokens=80, ignore_eos=True) for index in range(3)))
        assert driver.scheduler.counters.preemptions > preemptions
        assert trial.holds()


@pytest.mark.parametrize("kind", KINDS)
def test_a_swap_in_the_middle_of_an_answer_changes_nothing(models: Models, kind: str) -> None:
    with golden(models, kind) as trial:
        driver = trial.driver
        [plain] = driver.run(ask(b"swapped" * 4, max_tokens=60, ignore_eos=True))
        driver.forget_prefixes()
        sequence = driver.submit(ask(b"swapped" * 4, mode="auto", max_tokens=60, ignore_eos=True))
        for _ in range(8):
            driver.scheduler.step()
        driver.scheduler.obey(SetDrafter("off"))
        assert driver.roster.memory.total_bytes == 0
        for _ in range(4):
            driver.scheduler.step()
        driver.scheduler.obey(SetDrafter("auto"))
        driver.load_drafter()
        driver.drain()
        answer = driver.answer(sequence)
        assert answer.token_ids == plain.token_ids
        assert answer.finished.speculation.drafters[kind] > 5
        assert trial.holds()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_reused_prefix_is_drafted_behind_as_if_it_had_been_read(models: Models, layout: str) -> None:
    """Another request's first tokens, and the whole of a conversation that goes on."""
    pair = pair_of(models, layout)
    with running(pair.target, draft=pair.head, threads=1) as driver:
        request: dict[str, Any] = {"mode": pair.kind, "max_draft_tokens": 4, "max_tokens": 30}
        [first] = driver.run(ask(pair.prompt, **request))
        tail = follow(pair.next_token, pair.prompt[19], 8)
        [shared] = driver.run(ask([*pair.prompt[:20], *tail], **request))
        assert shared.finished.num_cached_tokens >= 20
        assert shared.speculation.accepted == shared.speculation.drafted > 0
        [on] = driver.run(ask(first.sequence.token_ids, **request))
        assert on.finished.num_cached_tokens >= len(first.sequence.token_ids) - 2
        assert on.speculation.accepted == on.speculation.drafted > 0


def test_behind_a_prefix_that_its_window_has_left_a_head_begins_anew(models: Models) -> None:
    """Its cells have been written over: it drafts nothing right until it has seen as much as it looks back by."""
    pair = pair_of(models, "dflash-sliding")
    request: dict[str, Any] = {"mode": pair.kind, "max_draft_tokens": 4}
    with running(pair.target, draft=pair.head, threads=1, n_ctx=1024, slots=1, cached_prefixes=0) as driver:
        [long] = driver.run(ask(pair.prompt, max_tokens=500, **request))
        assert long.speculation.accepted == long.speculation.drafted
        prompt = [*pair.prompt[:20], *follow(pair.next_token, pair.prompt[19], 8)]
        [shared] = driver.run(ask(prompt, max_tokens=200, **request))
        assert shared.finished.num_cached_tokens >= 20
        assert shared.token_ids == follow(pair.next_token, prompt[-1], 200)
        drafted, accepted = counts(shared)
        assert drafted - 4 * LAG <= accepted < drafted


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_without_the_head_cost_drafts_and_no_answer(models: Models, kind: str) -> None:
    """It hears of tokens that it does not draft, and keeps no more of them than a bounded number."""
    with golden(models, kind, prefill_chunk=32) as trial:
        driver = trial.driver
        [long] = driver.run(ask(b"long", mode="off", max_tokens=150, ignore_eos=True))
        [on] = driver.run(ask([*long.sequence.token_ids, 1], mode=kind, max_tokens=20, ignore_eos=True))
        [plain] = driver.run(ask([*long.sequence.token_ids, 1], mode="off", max_tokens=20, ignore_eos=True))
        assert on.token_ids == plain.token_ids
        assert on.speculation.drafted > 0
        assert trial.holds()


Mutant = Callable[[pytest.MonkeyPatch], None]


def publish_one_row_too_far(patch: pytest.MonkeyPatch) -> None:
    publish = Taps.publish
    patch.setattr(
        Taps, "publish", lambda taps, slot, at, row, count: publish(taps, slot, at, row + (count < 10), count)
    )


def mix_up_the_slots(patch: pytest.MonkeyPatch) -> None:
    publish = Taps.publish
    patch.setattr(Taps, "publish", lambda taps, slot, *rest: publish(taps, slot ^ 1, *rest))


@pytest.mark.parametrize("mutant", [publish_one_row_too_far, mix_up_the_slots])
@pytest.mark.parametrize("kind", ["eagle3", "dflash"])
def test_a_head_that_reads_the_wrong_states_is_noticed(
    models: Models, monkeypatch: pytest.MonkeyPatch, kind: str, mutant: Mutant
) -> None:
    with golden(models, kind) as trial:
        assert trial.holds()
        mutant(monkeypatch)
        assert not trial.holds()


def test_a_head_that_does_not_fit_is_refused_and_the_target_is_not_tapped(models: Models) -> None:
    head = models.write("eagle3-deep", eagle3_markov(models.chain, layers=(1, 2, 9)))
    with running(models.write("dense-markov", dense_markov(models.chain)), draft=SCRIPTED, threads=1) as driver:
        settings = msgspec.structs.replace(driver.settings, draft_path=str(head))
        with pytest.raises(DrafterError, match=r"target layers \[1, 2, 9\] are not within the target's 0 to 4"):
            build_drafter(settings, driver.context)


def test_a_target_that_gives_out_no_layer_inputs_is_never_tapped(models: Models) -> None:
    """It would end the process at the next decode."""
    target = models.write("mtp-0.0-target", mtp_markov(models.chain))
    head = models.write("eagle3-0.0-head", eagle3_markov(models.chain))
    with running(target, draft=SCRIPTED, threads=1) as scripted:
        settings = msgspec.structs.replace(scripted.settings, draft_path=str(head))
    driver = Driver(settings)
    with pytest.raises(DrafterError, match="layer inputs of architecture 'glm4moe'"):
        driver.load_drafter()
    assert driver.context.taps is None
    [answer] = driver.run(ask([5, 6], mode="eagle3", max_tokens=8))
    assert answer.token_ids == follow(models.chain, 6, 8)
    driver.close()
