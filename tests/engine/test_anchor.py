"""The first promise: the same request gives the same tokens, whatever drafts.

On the real model. Each request runs alone, in an empty cache, so that every difference is the drafter's doing; the
plain answers are computed four at a time, which shows on the way that a neighbour changes nothing. A share of the
prompts, to be done in a few minutes: `make bench-identity` takes them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.kits.engines import Answer, Driver, ask, chat, running
from tests.kits.identity import divergences, margin
from tests.kits.models import Models
from tests.kits.prompts import PROMPTS

pytestmark = pytest.mark.real

MAX_TOKENS = 96
GROUP = 4
GROUPS = range(0, len(PROMPTS) // GROUP, 3)


class Anchor:
    """An engine, and the plain answers so far, which cost most of the time."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self._plain: dict[tuple[str, int, float], Answer] = {}

    def plain(self, prompts: Sequence[str], max_tokens: int, temperature: float) -> list[Answer]:
        """Answers without a drafter, four at a time."""
        missing = [prompt for prompt in prompts if (prompt, max_tokens, temperature) not in self._plain]
        answers = self.driver.run(
            *(ask(chat(prompt), max_tokens=max_tokens, temperature=temperature) for prompt in missing)
        )
        for prompt, answer in zip(missing, answers, strict=True):
            self._plain[prompt, max_tokens, temperature] = answer
        return [self._plain[prompt, max_tokens, temperature] for prompt in prompts]

    def drafted(self, prompts: Sequence[str], mode: str, max_tokens: int, temperature: float) -> list[Answer]:
        """Answers with a drafter, one at a time; the number of draft tokens goes from 1 to 8 and round again."""
        return [
            self.driver.run(
                ask(
                    chat(prompt),
                    mode=mode,
                    max_draft_tokens=1 + PROMPTS.index(prompt) % 8,
                    max_tokens=max_tokens,
                    temperature=temperature,
                )
            )[0]
            for prompt in prompts
        ]

    def check(
        self, prompts: Sequence[str], mode: str, *, max_tokens: int = MAX_TOKENS, temperature: float = 0.0
    ) -> list[Answer]:
        """The drafted answers, after making sure that they are the plain ones."""
        self.driver.forget_prefixes()
        expected = self.plain(prompts, max_tokens, temperature)
        self.driver.forget_prefixes()
        answers = self.drafted(prompts, mode, max_tokens, temperature)
        assert [str(each) for each in divergences(prompts, expected, answers)] == []
        assert [answer.text for answer in answers] == [answer.text for answer in expected]
        return answers


@pytest.fixture(scope="module")
def self_drafting(models: Models) -> Iterator[Anchor]:
    """The demo model drafts for itself. Every prefix is kept, so no cell of the KV cache is used twice in a run."""
    with running(models.demo, draft=models.demo, n_ctx=8192, cached_prefixes=40) as driver:
        yield Anchor(driver)


@pytest.fixture(scope="module")
def random_drafting(models: Models, self_drafting: Anchor) -> Iterator[Anchor]:
    """A drafter without any idea drafts for the demo model."""
    with running(models.demo, draft=models.random_drafter, n_ctx=8192, cached_prefixes=40) as driver:
        anchor = Anchor(driver)
        anchor._plain = self_drafting._plain
        yield anchor


@pytest.mark.parametrize("group", GROUPS)
def test_prompt_lookup_leaves_greedy_answers_alone(self_drafting: Anchor, group: int) -> None:
    answers = self_drafting.check(PROMPTS[group * GROUP :][:GROUP], "ngram")
    assert sum(answer.speculation.drafted for answer in answers) > 0


@pytest.mark.parametrize("first", [0, 4])
def test_a_drafter_that_is_the_target_itself_leaves_greedy_answers_alone(self_drafting: Anchor, first: int) -> None:
    answers = self_drafting.check(PROMPTS[first : first + 2], "draft")
    drafted = sum(answer.speculation.drafted for answer in answers)
    assert sum(answer.speculation.accepted for answer in answers) >= 0.98 * drafted > 0


def test_a_drafter_without_any_idea_leaves_greedy_answers_alone(random_drafting: Anchor) -> None:
    answers = random_drafting.check(PROMPTS[:8], "draft", max_tokens=MAX_TOKENS // 4)
    drafted = sum(answer.speculation.drafted for answer in answers)
    assert sum(answer.speculation.accepted for answer in answers) <= 0.02 * drafted


@pytest.mark.parametrize("mode", ["ngram", "draft"])
def test_seeded_answers_stay_the_same(self_drafting: Anchor, mode: str) -> None:
    answers = self_drafting.check(PROMPTS[1:5], mode, max_tokens=MAX_TOKENS // 2, temperature=0.8)
    assert sum(answer.speculation.drafted for answer in answers) > 0


def test_seeded_answers_stay_the_same_under_a_drafter_without_any_idea(random_drafting: Anchor) -> None:
    random_drafting.check(PROMPTS[3:6], "draft", max_tokens=MAX_TOKENS // 4, temperature=0.8)


def test_four_drafting_streams_part_from_plain_ones_at_near_ties_only(self_drafting: Anchor) -> None:
    """A rejected row leaves a hole in the shared KV cache, and a neighbour's next token may land in it. Attention then
    sums in another order, which moves the last bits; a wrong row or a lost token would move far more."""
    prompts = PROMPTS[:4]
    expected = self_drafting.plain(prompts, MAX_TOKENS, 0.0)
    driver = self_drafting.driver
    driver.forget_prefixes()
    answers = driver.run(
        *(
            ask(chat(prompt), mode=mode, max_draft_tokens=1 + index, max_tokens=MAX_TOKENS)
            for index, (prompt, mode) in enumerate(zip(prompts, ("ngram", "draft", "ngram", "draft"), strict=True))
        )
    )
    assert {answer.speculation.exactness for answer in answers} == {"distribution"}
    for divergence in divergences(prompts, expected, answers):
        prompt_ids = expected[prompts.index(divergence.prompt)].sequence.token_ids[: -len(divergence.expected)]
        assert margin(driver, prompt_ids, divergence) < 1.0, str(divergence)
