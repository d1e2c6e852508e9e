"""Draft, verify, accept, trim: what a round keeps, on models whose next token is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from homespec.engine.drafters.drafter import DraftRequest
from homespec.errors import RequestError
from homespec.stats import MAX_DRAFT_TOKENS
from tests.kits.drafters import RecordingDrafter, Script, ScriptedDrafter, continuation_of
from tests.kits.engines import SCRIPTED, Answer, Driver, ask, running
from tests.kits.gguf_kit import EOS, NextToken, follow
from tests.kits.identity import plain_and_drafted, same_answer
from tests.kits.models import LETTERS, Models

pytestmark = pytest.mark.real

N_CTX = 256
START = tuple(b"hello")


@pytest.fixture(scope="module")
def markov(models: Models) -> Iterator[Driver]:
    """Target and drafter always agree."""
    with running(models.markov, draft=models.markov_drafter, n_ctx=N_CTX) as driver:
        yield driver


@pytest.fixture
def letters(models: Models) -> Iterator[Driver]:
    """Says the letters in turn; the test brings the drafter."""
    with running(models.letters, draft=SCRIPTED, n_ctx=N_CTX) as driver:
        yield driver


def drafting(driver: Driver, script: Script) -> Driver:
    driver.use_drafter(ScriptedDrafter(script))
    return driver


def agreement(truth: Sequence[int], draft: Sequence[int]) -> int:
    """Number of leading tokens in which a draft is right."""
    for index, (left, right) in enumerate(zip(truth, draft, strict=False)):
        if left != right:
            return index
    return min(len(truth), len(draft))


def expected_rounds(chain: NextToken, drafter: NextToken, last: int, num_tokens: int, limit: int) -> list[list[int]]:
    """Drafted and accepted tokens of each round of an answer, by the two tables alone."""
    rounds = []
    num_left = num_tokens - 1
    last = int(chain[last])
    while num_left:
        drafted = min(limit, num_left - 1)
        accepted = agreement(follow(chain, last, drafted), follow(drafter, last, drafted))
        rounds.append([drafted, accepted])
        last = follow(chain, last, accepted + 1)[-1]
        num_left -= accepted + 1
    return rounds


@pytest.mark.parametrize("limit", [1, 2, 4, 8])
def test_a_drafter_wrong_on_30_percent_is_accepted_as_often_as_its_table_says(models: Models, limit: int) -> None:
    with running(models.markov, draft=models.markov_drafter_30, n_ctx=N_CTX) as driver:
        [drafted] = driver.run(ask(START, mode="draft", max_draft_tokens=limit, max_tokens=200))
    rounds = expected_rounds(models.chain, models.wrong_chain, START[-1], 200, limit)
    report = drafted.speculation
    assert drafted.token_ids == follow(models.chain, START[-1], 200)
    assert report.rounds == len(rounds)
    assert report.drafted == sum(drafted for drafted, _ in rounds)
    assert report.accepted == sum(accepted for _, accepted in rounds)
    assert 0.1 < report.accepted / report.drafted < 0.9
    num_drafting = sum(drafted > 0 for drafted, _ in rounds)
    assert report.per_position == [
        sum(accepted > position for _, accepted in rounds) / num_drafting
        for position in range(max(accepted for _, accepted in rounds))
    ]
    assert report.acceptance_length == 1 + report.accepted / report.rounds


@pytest.mark.parametrize("max_tokens", range(1, 21))
def test_an_answer_has_exactly_as_many_tokens_as_asked_for(markov: Driver, models: Models, max_tokens: int) -> None:
    alone = f"exactly {max_tokens}"  # without a cached prompt the first token comes out of the prompt pass
    [answer] = markov.run(
        ask(START, mode="draft", max_draft_tokens=4, max_tokens=max_tokens, stream=True, partition=alone)
    )
    assert answer.token_ids == follow(models.chain, START[-1], max_tokens)
    assert answer.finished.num_output_tokens == max_tokens
    assert answer.finished.finish_reason == "length"
    assert [delta.num_tokens for delta in answer.deltas][-1] <= max_tokens
    assert answer.finished.timings.predicted_n == max_tokens
    assert answer.speculation.accepted + answer.speculation.rounds + 1 == max_tokens


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("offset", range(8))
def test_a_stop_string_at_any_place_in_a_block_cuts_where_it_would_without_drafts(
    letters: Driver, offset: int, stream: bool
) -> None:
    # The prompt pass gives "b"; the block after it drafts "cdefghij".
    stop = (chr(ord("c") + offset),)
    drafting(letters, continuation_of(LETTERS))
    plain, drafted = (
        letters.run(ask("a", mode=mode, max_draft_tokens=8, max_tokens=40, stop=stop, stream=stream))[0]
        for mode in ("off", "draft")
    )
    assert drafted.speculation.drafted == 8
    assert same_answer(plain, drafted)
    assert drafted.text == bytes(LETTERS[1 : 2 + offset]).decode()
    assert drafted.finished.finish_reason == "stop"
    # The last token of the answer need not be in the KV cache; nothing behind it may be.
    for answer in (plain, drafted):
        assert answer.sequence.slot_id is not None
        assert len(answer.sequence.token_ids) - 1 <= letters.kv_length(answer.sequence.slot_id)
        assert letters.kv_length(answer.sequence.slot_id) <= len(answer.sequence.token_ids)


@pytest.mark.parametrize("offset", range(8))
def test_a_conversation_goes_on_after_a_stop_inside_a_block_as_it_would_without_drafts(
    models: Models, offset: int
) -> None:
    with running(models.random, draft=SCRIPTED, n_ctx=N_CTX) as driver:
        [truth] = driver.run(ask(START, max_tokens=12, partition="truth"))
        stop_token = truth.token_ids[1 + offset]
        driver.use_drafter(ScriptedDrafter(continuation_of(truth.sequence.token_ids)))
        continued = []
        for mode in ("off", "draft"):
            # The token that would stop the answer is made impossible from some place on by ending there.
            [first] = driver.run(ask(START, mode=mode, max_draft_tokens=8, max_tokens=2 + offset, partition=mode))
            assert first.token_ids[-1] == stop_token
            [second] = driver.run(ask([*first.sequence.token_ids, *b" and"], max_tokens=16, partition=mode))
            assert second.finished.num_cached_tokens == len(first.sequence.token_ids) - 1
            continued.append(second.token_ids)
    assert continued[0] == continued[1]


@pytest.mark.parametrize("offset", range(1, 9))
def test_an_end_token_inside_a_block_ends_the_answer_and_is_not_part_of_it(models: Models, offset: int) -> None:
    says = (*LETTERS[: 1 + offset], EOS)
    with running(models.saying(f"eos-{offset}", says), draft=SCRIPTED, n_ctx=N_CTX) as driver:
        drafting(driver, continuation_of((*says, *LETTERS)))
        plain, drafted = (
            driver.run(ask("a", mode=mode, max_draft_tokens=8, max_tokens=40))[0] for mode in ("off", "draft")
        )
        assert same_answer(plain, drafted)
        assert drafted.token_ids == list(LETTERS[1 : 1 + offset])
        assert drafted.finished.finish_reason == "stop"
        [on] = driver.run(ask("a", mode="draft", max_draft_tokens=8, max_tokens=40, ignore_eos=True))
        assert on.finished.num_output_tokens == 40
        assert EOS in on.token_ids


@pytest.mark.parametrize("limit", range(9))
def test_the_end_of_the_context_is_met_exactly(markov: Driver, models: Models, limit: int) -> None:
    for length in range(N_CTX - 10, N_CTX):
        prompt = [START[0]] * length
        [answer] = markov.run(ask(prompt, mode="draft", max_draft_tokens=limit, max_tokens=None))
        assert answer.token_ids == follow(models.chain, START[0], N_CTX - length)
        assert answer.finished.finish_reason == "length"


@pytest.mark.parametrize("length", range(N_CTX, N_CTX + 3))
def test_a_prompt_that_can_never_fit_is_refused_with_both_numbers(markov: Driver, length: int) -> None:
    with pytest.raises(RequestError, match=rf"\b{length} tokens\b.*\b{N_CTX}\b") as refusal:
        markov.submit(ask([1] * length))
    assert refusal.value.info.status == 400
    assert refusal.value.info.code == "context_length_exceeded"
    assert refusal.value.info.param == "prompt"
    assert not markov.scheduler.busy


def test_a_drafter_with_a_smaller_context_goes_on_with_what_it_sees(models: Models) -> None:
    with running(models.markov, draft=models.short_drafter, n_ctx=512) as driver:
        [drafted] = driver.run(ask(START, mode="draft", max_draft_tokens=4, max_tokens=400))
        assert drafted.token_ids == follow(models.chain, START[-1], 400)
        assert driver.drafter_status().state == "ready"
        # Four of five tokens are drafted, but for the last one, and right wherever the window is.
        assert drafted.speculation.accepted == drafted.speculation.drafted >= 316


@pytest.mark.parametrize(("asked", "allowed"), [(0, 0), (1, 1), (2, 2), (None, 4), (64, MAX_DRAFT_TOKENS)])
def test_a_request_limits_its_draft_tokens(models: Models, asked: int | None, allowed: int) -> None:
    with running(models.markov, draft=SCRIPTED, n_ctx=N_CTX, max_draft_tokens=4) as driver:
        recording = RecordingDrafter(ScriptedDrafter(lambda request: follow(models.chain, request.token_ids[-1], 64)))
        driver.use_drafter(recording)
        [answer] = driver.run(ask(START, mode="draft", max_draft_tokens=asked, max_tokens=60))
        assert max(recording.limits, default=0) == allowed
        assert answer.speculation.drafted == sum(recording.limits)
        assert answer.token_ids == follow(models.chain, START[-1], 60)
        if asked == 0:
            assert answer.speculation.state == "off"
            assert "0 draft tokens" in answer.speculation.reason


def test_empty_wrong_and_right_drafts_in_turn_change_nothing(models: Models) -> None:
    rounds = iter(range(1_000_000))

    def script(request: DraftRequest) -> Sequence[int]:
        truth = follow(models.chain, request.token_ids[-1], 4)
        match next(rounds) % 5:
            case 0 | 2:
                return []
            case 1:
                return [(token + 1) % 256 for token in truth]
            case 3:
                return truth
            case _:
                return [*truth[:2], truth[0], truth[1]]

    with running(models.markov, draft=SCRIPTED, n_ctx=N_CTX) as driver:
        drafting(driver, script)
        [answer] = driver.run(ask(START, mode="draft", max_tokens=100))
        assert answer.token_ids == follow(models.chain, START[-1], 100)
        # Of five rounds, two draft nothing, and the others keep 0, 4 and 2 tokens.
        assert answer.speculation.per_position == pytest.approx([2 / 3, 2 / 3, 1 / 3, 1 / 3], abs=0.1)
        assert driver.scheduler.snapshot().counters.skipped_drafts["script ended"] > 0


@pytest.mark.parametrize("token", [-1, 288, 10**9])
def test_a_draft_ends_in_front_of_a_token_that_the_target_does_not_know(models: Models, token: int) -> None:
    with running(models.markov, draft=SCRIPTED, n_ctx=N_CTX) as driver:
        drafting(driver, lambda request: [*follow(models.chain, request.token_ids[-1], 1), token, 1])
        [answer] = driver.run(ask(START, mode="draft", max_tokens=21))
        assert answer.token_ids == follow(models.chain, START[-1], 21)
        assert answer.speculation.drafted == answer.speculation.accepted == 10


def test_every_round_is_drafted_or_has_a_reason_why_not(models: Models) -> None:
    with running(models.markov, draft=models.markov_drafter_30, n_ctx=N_CTX) as driver:
        answers = driver.run(
            ask(START, mode="draft", max_tokens=50),
            ask(START, mode="ngram", max_tokens=50),
            ask(START, mode="off", max_tokens=50),
            ask(START, mode="draft", max_draft_tokens=0, max_tokens=50),
        )
        snapshot = driver.scheduler.snapshot()
    drafting_rounds = sum(total.num_drafts for total in snapshot.speculation.totals.values())
    skipped = snapshot.counters.skipped_drafts
    assert drafting_rounds + sum(skipped.values()) == sum(answer.speculation.rounds for answer in answers)
    assert skipped["off"] >= 49
    assert skipped["no match"] >= 45
    assert skipped["near the end"] >= 49


def test_an_answer_without_a_single_draft_says_why(models: Models) -> None:
    with running(models.markov, n_ctx=N_CTX) as driver:
        [without] = driver.run(ask(START, mode="ngram", max_tokens=50))
        seen = [*START, *follow(models.chain, START[-1], 60), *START]
        [with_some] = driver.run(ask(seen, mode="ngram", max_tokens=50))
    assert without.speculation.state == "ready"
    assert without.speculation.reason == "ngram is ready, and nothing was drafted: no match (48 of 49 rounds)"
    assert with_some.speculation.drafted > 0
    assert with_some.speculation.reason == "ngram is ready"


def test_answers_share_the_time_of_their_rounds(models: Models) -> None:
    with running(models.markov, draft=models.markov_drafter_30, n_ctx=N_CTX) as driver:
        answers = driver.run(*(ask(START, mode=mode, max_tokens=50) for mode in ("draft", "draft", "off")))
        counters = driver.scheduler.snapshot().counters
    drafts = [answer.finished.timings.draft_ms or 0.0 for answer in answers]
    passes = [answer.finished.timings.verify_ms or 0.0 for answer in answers]
    assert sum(drafts) == pytest.approx(counters.draft_s * 1000)
    assert sum(passes) == pytest.approx(counters.verify_s * 1000)
    assert min(drafts[:2]) > 0 == drafts[2]
    assert min(passes) > 0


PENALTIES = {
    "repeat": {"repeat_penalty": 1.3},
    "presence": {"presence_penalty": 1.0},
    "frequency": {"frequency_penalty": 0.5},
    "all, whole history": {"repeat_penalty": 1.3, "presence_penalty": 1.0, "repeat_last_n": -1},
    "short window": {"repeat_penalty": 1.5, "repeat_last_n": 7},
    "bias": {"logit_bias": {ord("c"): -100.0, ord("e"): 4.0}},
}


def penalised_answers(
    model: Path, settings: dict[str, object], temperature: float, wrong_every: int = 0
) -> tuple[Answer, Answer]:
    return plain_and_drafted(
        model, "abc", wrong_every=wrong_every, max_tokens=64, temperature=temperature, sampling=settings
    )


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("settings", PENALTIES.values(), ids=PENALTIES.keys())
def test_penalties_and_bias_see_every_token_of_a_block(
    models: Models, settings: dict[str, object], temperature: float
) -> None:
    plain, drafted = penalised_answers(models.looping, settings, temperature)
    assert same_answer(plain, drafted)
    assert drafted.speculation.accepted == drafted.speculation.drafted > 0
    plain, drafted = penalised_answers(models.looping, settings, temperature, wrong_every=3)
    assert same_answer(plain, drafted)
    assert 0 < drafted.speculation.accepted < drafted.speculation.drafted
    # Without the setting the answer would be another one: the case tests something.
    unpenalised, _ = penalised_answers(models.looping, {}, temperature)
    assert plain.token_ids != unpenalised.token_ids


def test_a_biased_token_never_appears(models: Models) -> None:
    plain, _ = penalised_answers(models.looping, {"logit_bias": {ord("c"): -100.0}}, 1.5)
    assert ord("c") not in plain.token_ids


@pytest.mark.parametrize("temperature", [0.0, 1e-6, 0.7, 1.5])
def test_a_drafter_equal_to_the_target_is_always_accepted(models: Models, temperature: float) -> None:
    with running(models.random, draft=models.random, n_ctx=N_CTX) as driver:
        plain, drafted = driver.run(
            ask(START, max_tokens=100, temperature=temperature),
            ask(START, mode="draft", max_tokens=100, temperature=temperature),
        )
    assert drafted.token_ids == plain.token_ids
    assert drafted.speculation.accepted == drafted.speculation.drafted > 0


def test_a_seed_gives_one_answer_and_another_seed_another(models: Models) -> None:
    with running(models.random, draft=models.other_random, n_ctx=N_CTX) as driver:
        alone = [
            driver.run(ask(START, seed=42, temperature=1.5, mode=mode))[0].token_ids
            for mode in ("off", "draft", "ngram", "off", "draft")
        ]
        beside = driver.run(
            ask(START, seed=42, temperature=1.5, mode="draft"), ask(b"other", seed=43, temperature=1.5, mode="draft")
        )
        [other] = driver.run(ask(START, seed=43, temperature=1.5))
    assert all(token_ids == alone[0] for token_ids in alone)
    assert beside[0].token_ids == alone[0]
    assert other.token_ids != alone[0]


def test_logprobs_are_those_of_the_row_that_judged_each_token(models: Models) -> None:
    plain, drafted = plain_and_drafted(
        models.random, START, limit=4, wrong_every=5, max_tokens=40, num_logprobs=3, ignore_eos=True
    )
    assert drafted.speculation.accepted > 0
    for left, right in zip(plain.finished.logprobs, drafted.finished.logprobs, strict=True):
        assert left.token_id == right.token_id
        assert np.isclose(left.logprob, right.logprob, atol=1e-3)
        assert left.logprob == left.top[0][1]
    assert [each.token_id for each in drafted.finished.logprobs] == drafted.token_ids


@pytest.mark.parametrize("limit", range(6))
def test_a_stream_has_one_logprob_per_token_also_when_a_stop_string_takes_tokens_back(
    letters: Driver, limit: int
) -> None:
    drafting(letters, continuation_of(LETTERS))
    [answer] = letters.run(
        ask("a", mode="draft", max_draft_tokens=limit, max_tokens=40, stop=("fghij",), stream=True, num_logprobs=0)
    )
    assert answer.text == "bcde"
    sent = [each for delta in answer.deltas for each in delta.logprobs] + answer.finished.logprobs
    assert [each.text for each in sent] == list("bcde")
    assert answer.finished.num_output_tokens == len(sent)
