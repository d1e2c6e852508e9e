"""`auto` asks a free drafter that is sure, then the model; whoever drafts, nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from homespec.engine.drafters.drafter import DraftRequest
from homespec.frames import Constraint, SetDrafter, Withdraw
from tests.kits.drafters import RecordingDrafter, ScriptedDrafter, continuation_of
from tests.kits.engines import SCRIPTED, Answer, Driver, ask, running
from tests.kits.gguf_kit import follow
from tests.kits.models import LETTERS, Models

pytestmark = pytest.mark.real

GOLDEN = b"a golden request, a golden request, a golden"


@pytest.fixture
def driver(models: Models) -> Iterator[Driver]:
    """Says sixty-two signs in turn, so it repeats itself after as many tokens; the model drafter knows them too."""
    with running(models.letters, draft=SCRIPTED, n_ctx=512, threads=1) as driver:
        driver.use_drafter(ScriptedDrafter(continuation_of(LETTERS * 9)))
        yield driver


def drafted_by(answer: Answer) -> dict[str, int]:
    return answer.speculation.drafters


def test_the_model_drafts_until_the_text_repeats_and_then_it_is_free(driver: Driver) -> None:
    [plain] = driver.run(ask("a", max_tokens=300, partition="plain"))
    [answer] = driver.run(ask("a", mode="auto", max_tokens=300))
    assert answer.token_ids == plain.token_ids
    assert set(drafted_by(answer)) == {"draft", "suffix"}
    # 62 tokens at five a round, a few more until the match is long enough, and the rest without the model.
    assert 12 <= drafted_by(answer)["draft"] <= 15
    assert drafted_by(answer)["suffix"] >= 45
    assert answer.speculation.accepted == answer.speculation.drafted


def test_the_order_is_told_as_it_is(driver: Driver) -> None:
    def told() -> tuple[str | None, tuple[str, ...]]:
        speculation = driver.scheduler.snapshot().speculation
        return speculation.drafter, speculation.order

    assert told() == ("draft", ("grammar", "suffix", "draft"))
    driver.scheduler.obey(Withdraw("withdrawn"))
    assert told() == ("suffix", ("grammar", "suffix", "ngram"))
    driver.scheduler.obey(SetDrafter("ngram"))
    assert told() == ("ngram", ("grammar", "ngram"))
    driver.scheduler.obey(SetDrafter("off"))
    assert told() == (None, ())


def test_statistics_are_kept_per_drafter(driver: Driver) -> None:
    [answer] = driver.run(ask("a", mode="auto", max_tokens=300))
    totals = driver.scheduler.snapshot().speculation.totals
    assert {name: stats.num_drafts for name, stats in totals.items()} == drafted_by(answer)
    assert sum(stats.num_accepted_tokens for stats in totals.values()) == answer.speculation.accepted


def test_a_request_may_name_it(driver: Driver) -> None:
    [answer] = driver.run(ask("a", mode="suffix", max_tokens=300))
    assert set(drafted_by(answer)) == {"suffix"}
    assert answer.speculation.accepted == answer.speculation.drafted > 100


def test_the_model_is_not_asked_where_a_free_draft_is_sure(driver: Driver) -> None:
    recording = RecordingDrafter(ScriptedDrafter(lambda request: follow_letters(request.token_ids[-1], 4)))
    driver.use_drafter(recording)
    driver.run(ask("a", mode="auto", max_tokens=300))
    assert len(recording.drafts) <= 15


def follow_letters(last: int, count: int) -> list[int]:
    start = LETTERS.index(last) + 1
    return list((LETTERS * 2)[start : start + count])


def test_what_a_constraint_forces_comes_first(models: Models) -> None:
    with running(models.random, draft=models.other_random, n_ctx=512, threads=1) as driver:
        constraint = Constraint("regex", "(golden egg ){8}", "regex")
        [answer] = driver.run(ask(b"x", mode="auto", max_tokens=100, constraint=constraint))
        assert answer.text == "golden egg " * 8
        assert set(drafted_by(answer)) == {"grammar"}
        assert answer.speculation.accepted == answer.speculation.drafted


@pytest.mark.parametrize("num_streams", [1, 4])
def test_several_sequences_with_different_chains_share_a_round(models: Models, num_streams: int) -> None:
    prompts = [bytes([65 + index]) * 12 for index in range(num_streams)]
    modes = ("auto", "suffix", "draft", "ngram")
    with running(models.random, draft=models.other_random, n_ctx=1024, threads=1) as driver:
        plain = driver.run(*(ask(prompt, max_tokens=80, partition="p") for prompt in prompts))
        drafted = driver.run(
            *(ask(prompt, mode=mode, max_tokens=80) for prompt, mode in zip(prompts, modes, strict=False))
        )
    assert [answer.token_ids for answer in drafted] == [answer.token_ids for answer in plain]


@pytest.mark.parametrize("mode", ["suffix", "auto"])
class TestNothingStaysBehind:
    """A golden request after a fault drafts and answers as in a fresh engine."""

    @pytest.fixture
    def engine(self, models: Models) -> Iterator[Driver]:
        with running(
            models.random, draft=models.markov_drafter, n_ctx=512, threads=1, slots=3, cached_prefixes=1
        ) as driver:
            yield driver

    def golden(self, driver: Driver, mode: str) -> tuple[Sequence[int], int, int]:
        """In a new partition each time: a kept prefix would save the round of the first token."""
        partition = f"golden {len(driver.frames)}"
        [answer] = driver.run(ask(GOLDEN, mode=mode, max_tokens=60, partition=partition, ignore_eos=True))
        return answer.token_ids, answer.speculation.drafted, answer.speculation.accepted

    def test_after_a_cancel_in_the_middle(self, engine: Driver, mode: str) -> None:
        expected = self.golden(engine, mode)
        sequence = engine.submit(ask(GOLDEN * 2, mode=mode, max_tokens=100))
        for _ in range(8):
            engine.scheduler.step()
        engine.scheduler.cancel(sequence.id)
        assert self.golden(engine, mode) == expected

    def test_after_a_stop_that_took_tokens_back(self, engine: Driver, mode: str) -> None:
        expected = self.golden(engine, mode)
        tokens = expected[0]
        stop = engine.engine.vocab.detokenize(list(tokens[20:23]))
        for _ in range(2):
            engine.run(ask(GOLDEN, mode=mode, max_tokens=60, partition="golden", stop=(stop,), ignore_eos=True))
        assert self.golden(engine, mode) == expected

    def test_after_preemption(self, engine: Driver, mode: str) -> None:
        expected = self.golden(engine, mode)
        prompts = [bytes([65 + index]) * 60 for index in range(3)]
        answers = engine.run(*(ask(prompt, mode=mode, max_tokens=150, ignore_eos=True) for prompt in prompts))
        assert engine.scheduler.counters.preemptions > 0
        assert [answer.finished.num_output_tokens for answer in answers] == [150] * 3
        assert self.golden(engine, mode) == expected

    def test_after_the_drafter_was_swapped_in_the_middle(self, engine: Driver, mode: str) -> None:
        expected = self.golden(engine, mode)
        sequence = engine.submit(ask(GOLDEN, mode="auto", max_tokens=60, partition="golden", ignore_eos=True))
        for switch in ("ngram", "off", "suffix", "auto"):
            engine.scheduler.obey(SetDrafter(switch))
            for _ in range(3):
                engine.scheduler.step()
        engine.load_drafter()
        engine.drain()
        assert engine.answer(sequence).token_ids == expected[0]
        assert self.golden(engine, mode) == expected


def test_a_past_answer_is_drafted_from_in_its_own_partition_only(models: Models) -> None:
    with running(models.random, n_ctx=512, threads=1, past_outputs_bytes=1 << 20) as driver:
        request: dict[str, Any] = {"mode": "suffix", "max_tokens": 80, "ignore_eos": True}
        first, again, other = (
            driver.run(ask(b"tell me", partition=partition, **request))[0] for partition in ("one", "one", "other")
        )
        assert first.token_ids == again.token_ids == other.token_ids
        assert again.speculation.accepted > 55
        assert other.speculation.accepted == first.speculation.accepted < 40


def test_past_answers_survive_a_restart_only_if_asked_to(
    models: Models, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = str(tmp_path_factory.mktemp("past") / "answers")

    def accepted(*, salted: bool = False, **settings: Any) -> int:
        with running(models.random, n_ctx=512, threads=1, past_outputs_bytes=1 << 20, **settings) as driver:
            [answer] = driver.run(ask(b"tell me", mode="suffix", max_tokens=80, ignore_eos=True, salted=salted))
            return answer.speculation.accepted

    assert accepted() == accepted() < 40
    assert accepted(past_outputs_path=path, salted=True) < 40
    assert accepted(past_outputs_path=path) < 40
    assert accepted(past_outputs_path=path) > 55


def test_a_drafter_that_breaks_in_a_chain_leaves_the_others(models: Models) -> None:
    def broken(_request: DraftRequest) -> list[int]:
        raise ZeroDivisionError("oops")

    with running(models.letters, draft=SCRIPTED, n_ctx=512, threads=1) as driver:
        driver.use_drafter(ScriptedDrafter(broken))
        [answer] = driver.run(ask("a", mode="auto", max_tokens=200))
        assert answer.token_ids == follow_letters_for_ever(200)
        assert set(drafted_by(answer)) <= {"suffix", "ngram"}
        assert driver.drafter_status().state == "off"


def follow_letters_for_ever(count: int) -> list[int]:
    return list((LETTERS * (count // len(LETTERS) + 2))[1 : count + 1])


def test_a_model_that_lagged_behind_free_drafts_catches_up(models: Models) -> None:
    with running(models.markov, draft=models.markov_drafter, n_ctx=1024, threads=1) as driver:
        chain = follow(models.chain, 5, 400)
        [answer] = driver.run(ask([5, *chain[:300]], mode="auto", max_tokens=200))
        assert answer.token_ids == follow(models.chain, chain[299], 200)
        assert set(drafted_by(answer)) == {"suffix", "draft"} or set(drafted_by(answer)) == {"suffix"}
        assert answer.speculation.accepted == answer.speculation.drafted
