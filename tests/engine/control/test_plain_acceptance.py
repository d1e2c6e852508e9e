"""Acceptance as it is, and as it would be written if it might take its time: the same forecasts, the same choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homespec.engine.control import experience
from homespec.engine.control.acceptance import Acceptance
from tests.engine.control import plain_acceptance
from tests.engine.control.simulator import MACHINES, Machine, replay

SURENESS = st.sampled_from([0.0, 0.05, 0.1, 0.3, 0.5, 0.62, 0.75, 0.8, 0.93, 0.97, 0.99, 1.0])
DRAFT = st.lists(SURENESS, min_size=1, max_size=16)
ROUND = st.tuples(st.sampled_from("abc"), DRAFT, st.integers(0, 16), st.booleans(), st.booleans())


@settings(max_examples=40)
@given(st.lists(ROUND, max_size=60), DRAFT)
def test_forecasts_are_those_of_the_plain_one(
    rounds: list[tuple[str, list[float], int, bool, bool]], asked: list[float]
) -> None:
    both: tuple[Any, Any] = Acceptance(0.6), plain_acceptance.Acceptance(0.6)
    for sequence, draft, taken, is_sure, also_blind in rounds:
        confidences = list(draft) if is_sure else [None] * len(draft)
        for each in both:
            each.learn(sequence, confidences, min(taken, len(draft)), also_blind=also_blind)
    for sequence in "abd":
        for known in (asked, None):
            ours, theirs = (each.forecast(sequence, len(asked), known).survival for each in both)
            assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


@given(st.lists(ROUND, max_size=20), DRAFT)
def test_a_draft_that_grows_is_forecast_like_one_that_is_there(
    rounds: list[tuple[str, list[float], int, bool, bool]], asked: list[float]
) -> None:
    acceptance = Acceptance(0.6)
    for sequence, draft, taken, _, also_blind in rounds:
        acceptance.learn(sequence, draft, min(taken, len(draft)), also_blind=also_blind)
    growing = acceptance.grow("a")
    grown = [growing.add(confidence) for confidence in asked]
    assert grown == pytest.approx(acceptance.forecast("a", len(asked), asked).survival)


@pytest.mark.parametrize("name", list(MACHINES))
@pytest.mark.parametrize("seed", range(3))
def test_choices_are_those_of_the_plain_one(monkeypatch: pytest.MonkeyPatch, name: str, seed: int) -> None:
    machine = Machine(MACHINES[name], {"draft": 0.05})
    rates = np.random.default_rng(seed).choice([0.05, 0.4, 0.7, 0.9, 0.98], (3, 4))

    def text(each: int) -> dict[str, Callable[[int], float]]:
        return {
            "free": lambda now: float(rates[each, now // 60 % 4]),
            "draft": lambda now: float(rates[each, (now // 60 + 2) % 4]),
        }

    def decisions() -> list[list[str]]:
        run = replay(machine, [text(each) for each in range(3)], 300, seed=seed)
        return [[record.decision.text for record in records] for records in run.rounds]

    ours = decisions()
    monkeypatch.setattr(experience, "Acceptance", plain_acceptance.Acceptance)
    monkeypatch.setattr(plain_acceptance.Acceptance, "grow", lambda *_: None, raising=False)
    assert ours == decisions()
