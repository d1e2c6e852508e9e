"""A request that runs alone answers as in a fresh process, whatever the engine has been through; and says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kits.engines import Driver, ask, running
from tests.kits.models import Models
from tests.kits.prompts import PROMPTS

pytestmark = pytest.mark.real

REPETITIVE = "red green blue red green blue red green blue red"
CASES = [(0.0, 1), (0.8, 5), (0.8, 7)]


def answers(driver: Driver) -> list[list[int]]:
    """Plain and drafted, greedy and seeded."""
    return [
        driver.run(ask(REPETITIVE, max_tokens=14, mode=mode, temperature=temperature, seed=seed))[0].token_ids
        for temperature, seed in CASES
        for mode in ("off", "ngram")
    ]


@pytest.fixture(scope="module")
def fresh(models: Models) -> list[list[int]]:
    with running(models.demo, n_ctx=2048) as driver:
        return answers(driver)


@pytest.fixture
def driver(models: Models) -> Iterator[Driver]:
    with running(models.demo, n_ctx=2048, slots=4, cached_prefixes=3) as driver:
        yield driver


def test_plain_and_drafted_answers_are_the_same(fresh: list[list[int]]) -> None:
    assert fresh[::2] == fresh[1::2]


def test_after_more_prompts_than_can_be_kept(driver: Driver, fresh: list[list[int]]) -> None:
    for index, prompt in enumerate(PROMPTS[:10]):
        driver.run(ask(prompt, max_tokens=3 + index % 4, mode="ngram" if index % 2 else "off"))
    assert answers(driver) == fresh


def test_after_requests_that_ran_at_once(driver: Driver, fresh: list[list[int]]) -> None:
    together = driver.run(*(ask(prompt, max_tokens=6, mode="ngram") for prompt in PROMPTS[:4]))
    assert answers(driver) == fresh
    assert {answer.speculation.exactness for answer in together} == {"distribution"}


def test_after_a_cancel_in_the_middle_of_an_answer(driver: Driver, fresh: list[list[int]]) -> None:
    for _ in range(2):
        sequence = driver.submit(ask(PROMPTS[0], max_tokens=40, mode="ngram"))
        for _ in range(6):
            driver.scheduler.step()
        driver.scheduler.cancel(sequence.id)
    assert answers(driver) == fresh


def test_the_prefix_it_starts_with_survives_when_the_cache_is_tidied(driver: Driver) -> None:
    [first] = driver.run(ask(REPETITIVE, max_tokens=4))
    driver.run(*(ask(prompt, max_tokens=2) for prompt in PROMPTS[:2]))
    [again] = driver.run(ask(REPETITIVE, max_tokens=4))
    assert again.token_ids == first.token_ids
    assert again.finished.num_cached_tokens == again.finished.num_prompt_tokens - 1
    assert sum(bool(slot.token_ids) for slot in driver.scheduler._slots.slots) == 1


def test_a_lone_answer_that_fills_the_context_keeps_its_order(models: Models) -> None:
    long = "one two three four five six seven eight nine ten " * 6
    with running(models.demo, n_ctx=256, slots=2, cached_prefixes=3) as driver:
        [expected] = driver.run(ask(long, max_tokens=150))
        for prompt in PROMPTS[:3]:
            driver.run(ask(prompt, max_tokens=20))
        [got] = driver.run(ask(long, max_tokens=150, mode="ngram"))
        assert got.token_ids == expected.token_ids
        assert got.sequence.in_order


def test_a_strict_engine_does_not_start_from_a_prefix_out_of_order(models: Models) -> None:
    with running(models.demo, n_ctx=1024, slots=1 + 1, exactness="strict", kv_type="auto") as driver:
        driver.run(ask(REPETITIVE, max_tokens=4), ask(PROMPTS[0], max_tokens=4))
        [alone] = driver.run(ask(REPETITIVE, max_tokens=4))
        assert alone.finished.num_cached_tokens == 0
        assert alone.speculation.exactness == "strict"
