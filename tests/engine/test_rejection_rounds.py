"""Rejection mode in a running engine: answers follow the target's distribution, whatever is cut from their drafts."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Any

import pytest

from homespec.engine import drafting
from homespec.engine.drafted import Drafted
from homespec.engine.exactness import Verdict
from homespec.engine.sequence import Sequence
from homespec.frames import Constraint
from tests.kits.engines import Driver, ask, running
from tests.kits.models import Models

pytestmark = pytest.mark.real

PROMPT = b"x"
LENGTH = 3
NUM_ANSWERS = 2_500
LIMIT = 24.3
"""Chi-squared with the seven degrees of freedom that eight answers leave, at p = 0.001."""

# Three letters are all that is likely, and the drafter, which knows of no constraint, often says the third of them.
LETTERS = "ab"
SETTINGS = {"logit_bias": {ord(letter): 30.0 for letter in "abc"}, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
TWO_LETTERS = Constraint("regex", f"[{LETTERS}]{{{LENGTH}}}", "regex")


def answers(driver: Driver, first_seed: int, count: int, **fields: Any) -> list[str]:
    requests = (
        ask(
            PROMPT,
            mode="draft",
            max_draft_tokens=LENGTH,
            acceptance="rejection",
            temperature=1.0,
            max_tokens=LENGTH,
            seed=seed,
            sampling=SETTINGS,
            **fields,
        )
        for seed in range(first_seed, first_seed + count)
    )
    texts = [answer.text for answer in driver.run(*requests)]
    driver.frames.clear()
    return texts


def probability(driver: Driver, text: str) -> float:
    """Of an answer of two letters, from the logits of an answer that could be nothing else."""
    [forced] = driver.run(ask(PROMPT, num_logprobs=288, constraint=Constraint("regex", text, "regex")))
    chance = 1.0
    for entry in forced.finished.logprobs:
        weights = {token: math.exp(top) for token, top in entry.top}
        chance *= weights[entry.token_id] / sum(weights[ord(letter)] for letter in LETTERS)
    return chance


def chi_squared(models: Models) -> float:
    """How far many answers are from the target's distribution."""
    with running(models.random, draft=models.other_random) as driver:
        expected = {text: probability(driver, text) for text in map("".join, product(LETTERS, repeat=LENGTH))}
        counts: Counter[str] = Counter()
        for seed in range(0, NUM_ANSWERS, 100):
            counts.update(answers(driver, seed, 100, constraint=TWO_LETTERS))
    assert counts.keys() <= expected.keys()
    return sum((counts[text] - NUM_ANSWERS * p) ** 2 / (NUM_ANSWERS * p) for text, p in expected.items())


def test_a_constraint_that_the_drafter_does_not_know_biases_nothing(models: Models) -> None:
    assert chi_squared(models) < LIMIT


def test_the_test_sees_a_draft_that_is_cut_in_front_of_what_was_drawn(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(sequence: Sequence, drafted: Drafted) -> Drafted:
        assert sequence.grammar is not None
        num_legal = len(sequence.grammar.legal_prefix(drafted.token_ids))
        return Drafted(drafted.drafter, drafted.proposals[:num_legal], "not legal")

    monkeypatch.setattr(drafting, "_legal", cut)
    assert chi_squared(models) > LIMIT


@pytest.mark.parametrize(
    ("acceptance", "temperature", "label"),
    [("coupled", 0.8, "strict"), ("rejection", 0.8, "distribution"), ("rejection", 0.0, "strict")],
)
def test_an_answer_that_depends_on_its_drafts_is_not_called_strict(
    models: Models, acceptance: str, temperature: float, label: str
) -> None:
    with running(models.random, draft=models.other_random) as driver:
        driver.scheduler.exactness.verdict = Verdict(True, "measured")
        [answer] = driver.run(ask(PROMPT, mode="draft", acceptance=acceptance, temperature=temperature))
    assert answer.speculation.exactness == label
