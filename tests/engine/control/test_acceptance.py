"""How likely a draft is taken: learned per drafter, moved per sequence, quick to follow a switch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from homespec.engine.control.acceptance import Acceptance

LENGTH = 12
UNSURE = [None] * LENGTH


def survival(acceptance: Acceptance, *asked: Any) -> NDArray[np.float64]:
    return np.asarray(acceptance.forecast(*asked).survival)


def teach(
    acceptance: Acceptance, rate: float, rounds: int, *, sequence: str = "s", seed: int = 0, length: int = LENGTH
) -> None:
    random = np.random.default_rng(seed)
    for _ in range(rounds):
        taken = min(int(random.geometric(1 - rate)) - 1, length)
        acceptance.learn(sequence, UNSURE[:length], taken)


@given(
    st.lists(st.tuples(st.integers(1, LENGTH), st.integers(0, LENGTH)), max_size=30),
    st.lists(st.floats(0, 1), min_size=1, max_size=LENGTH),
)
def test_survival_is_a_falling_probability_whatever_was_seen(
    rounds: list[tuple[int, int]], confidences: list[float]
) -> None:
    acceptance = Acceptance(0.5)
    for length, taken in rounds:
        acceptance.learn("s", [0.7] * length, min(taken, length), also_blind=True)
    for found in (survival(acceptance, "s", 16), survival(acceptance, "s", len(confidences), confidences)):
        assert (found >= 0).all()
        assert (found <= 1).all()
        assert (np.diff(found) <= 1e-12).all()


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8, 0.95])
def test_a_steady_rate_is_learned(rate: float) -> None:
    acceptance = Acceptance(0.5)
    teach(acceptance, rate, 300)
    found = survival(acceptance, "s", 8, UNSURE[:8])
    assert found[0] == pytest.approx(rate, abs=0.1)
    assert found[3] == pytest.approx(rate**4, abs=0.12)


@pytest.mark.parametrize(("before", "after"), [(0.95, 0.1), (0.1, 0.95)])
def test_a_switch_is_followed_within_eight_rounds(before: float, after: float) -> None:
    acceptance = Acceptance(0.5)
    teach(acceptance, before, 200)
    teach(acceptance, after, 8, seed=3)
    assert survival(acceptance, "s", 1, UNSURE[:1])[0] == pytest.approx(after, abs=0.2)


def test_a_new_sequence_starts_from_what_the_drafter_is_worth_elsewhere() -> None:
    good, bad = Acceptance(0.5), Acceptance(0.5)
    for sequence in "abcdefgh":
        teach(good, 0.9, 30, sequence=sequence)
        teach(bad, 0.1, 30, sequence=sequence)
    assert survival(good, "new", 1, UNSURE[:1])[0] > 0.7
    assert survival(bad, "new", 1, UNSURE[:1])[0] < 0.35


def test_a_boasting_drafter_is_not_believed() -> None:
    """It says 0.99 of tokens that are right half of the time, and 0.6 of some that are always right."""
    acceptance = Acceptance(0.6)
    random = np.random.default_rng(5)
    for now in range(400):
        if now % 2:
            acceptance.learn(f"s{now // 40}", [0.99], int(random.random() < 0.5))
        else:
            acceptance.learn(f"s{now // 40}", [0.6], 1)
    assert survival(acceptance, "new", 1, [0.99])[0] < survival(acceptance, "new", 1, [0.6])[0] - 0.1


def test_a_model_drafter_is_known_before_its_draft_exists() -> None:
    acceptance = Acceptance(0.6)
    for _ in range(60):
        acceptance.learn("s", [0.9, 0.9, 0.9], 3, also_blind=True)
    assert survival(acceptance, "s", 3)[2] > 0.8
    assert survival(acceptance, "s", 3, [0.9, 0.9, 0.9])[2] > 0.8


def test_what_was_not_judged_is_not_learned_from() -> None:
    acceptance = Acceptance(0.5)
    before = survival(acceptance, "s", 3, UNSURE[:3])
    acceptance.learn("s", [], 0)
    assert survival(acceptance, "s", 3, UNSURE[:3]) == pytest.approx(before)


def test_a_forgotten_sequence_starts_anew() -> None:
    acceptance = Acceptance(0.5)
    teach(acceptance, 0.05, 20)
    low = survival(acceptance, "s", 1, UNSURE[:1])[0]
    acceptance.forget("s")
    assert survival(acceptance, "s", 1, UNSURE[:1])[0] > low
    assert survival(acceptance, "s", 1, UNSURE[:1])[0] == survival(acceptance, "new", 1, UNSURE[:1])[0]
