from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from homespec.engine.sampling.chain import shortlist
from homespec.engine.sampling.coupled import CoupledSampler
from homespec.engine.sampling.sampler import Proposal
from homespec.frames import Sampling

SIZE = 16
PLAIN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
CUT: dict[str, Any] = {"temperature": 0.7, "top_k": 6, "top_p": 0.9, "min_p": 0.02}

rows = arrays(np.float32, SIZE, elements=st.integers(-160, 160).map(lambda sixteenths: sixteenths / 16))


def logits_of(seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 1.5, SIZE).astype(np.float32)


@pytest.mark.parametrize("settings", [PLAIN, CUT])
def test_draws_over_many_positions_follow_the_distribution(settings: dict[str, Any]) -> None:
    logits = logits_of(1)
    draws = 40_000
    sampler = CoupledSampler(Sampling(seed=3, **settings))
    counts = np.zeros(SIZE)
    for position in range(draws):
        counts[sampler.choose(logits, range(position))] += 1
    candidates = shortlist(logits, sampler.sampling)
    expected = np.zeros(SIZE)
    expected[candidates.ids()] = candidates.probabilities() * draws
    assert counts[expected == 0].sum() == 0
    possible = expected > 0
    chi_squared = ((counts[possible] - expected[possible]) ** 2 / expected[possible]).sum()
    freedom = int(possible.sum()) - 1
    assert chi_squared < freedom + 3.7 * np.sqrt(2 * freedom) + 4


@given(rows, st.integers(0, 2**62), st.lists(st.integers(0, SIZE - 1), max_size=20), st.integers(0, SIZE - 1))
def test_what_was_drafted_makes_no_difference(
    logits: NDArray[np.float32], seed: int, history: list[int], drafted: int
) -> None:
    sampler = CoupledSampler(Sampling(seed=seed, **CUT))
    assert sampler.choose(logits, history, None, Proposal(drafted)) == sampler.choose(logits, history)


@given(rows, st.integers(0, 2**62), st.lists(st.integers(0, SIZE - 1), max_size=20))
def test_the_draw_depends_on_the_number_of_earlier_tokens_not_on_what_they_are(
    logits: NDArray[np.float32], seed: int, history: list[int]
) -> None:
    sampling = Sampling(seed=seed, **PLAIN)
    other = [(token + 1) % SIZE for token in history]
    assert CoupledSampler(sampling).choose(logits, history) == CoupledSampler(sampling).choose(logits, other)


@given(rows, st.integers(0, 2**62), st.lists(st.integers(0, SIZE - 1), max_size=8))
def test_a_drafter_with_the_target_s_logits_is_always_right(
    logits: NDArray[np.float32], seed: int, history: list[int]
) -> None:
    for temperature in (0.0, 0.7):
        sampler = CoupledSampler(Sampling(seed=seed, temperature=temperature))
        assert sampler.propose(logits, history).token_id == sampler.choose(logits, history)


@given(rows)
def test_a_tiny_temperature_is_greedy(logits: NDArray[np.float32]) -> None:
    greedy = CoupledSampler(Sampling(temperature=0.0)).choose(logits, [1])
    chosen = CoupledSampler(Sampling(**{**PLAIN, "temperature": 1e-9})).choose(logits, [1])
    assert logits[chosen] == logits[greedy]


def test_shared_noise_matches_more_often_than_drafting_the_likeliest_token() -> None:
    coupled = argmax = 0
    draws = 6000
    for seed in range(draws):
        target = logits_of(seed % 50)
        drafter = target + np.random.default_rng(seed % 50 + 1000).normal(0, 0.7, SIZE).astype(np.float32)
        sampler = CoupledSampler(Sampling(seed=seed, **PLAIN))
        token = sampler.choose(target, [0])
        coupled += sampler.propose(drafter, [0]).token_id == token
        argmax += int(drafter.argmax()) == token
    assert coupled > 1.1 * argmax


def test_a_strong_bias_forbids_a_token() -> None:
    logits = logits_of(2)
    best = int(logits.argmax())
    sampler = CoupledSampler(Sampling(seed=1, logit_bias={best: -100.0}, **PLAIN))
    assert all(sampler.choose(logits, range(position)) != best for position in range(2000))


def distribution(logits: NDArray[np.float32], sampling: Sampling) -> NDArray[np.float64]:
    candidates = shortlist(logits, sampling)
    dense = np.zeros(len(logits))
    dense[candidates.ids()] = candidates.probabilities()
    return dense


def test_draws_of_many_seeds_at_one_position_follow_the_distribution() -> None:
    logits, draws = logits_of(3), 20_000
    counts = np.zeros(SIZE)
    for seed in range(draws):
        counts[CoupledSampler(Sampling(seed=seed, **PLAIN)).choose(logits, [0, 0, 0])] += 1
    expected = distribution(logits, Sampling(**PLAIN)) * draws
    assert ((counts - expected) ** 2 / expected).sum() < 37.7  # 15 degrees of freedom: p < 0.001


def test_draws_at_neighbouring_positions_are_independent() -> None:
    logits, pairs = logits_of(4)[:8], np.zeros((8, 8))
    sampler = CoupledSampler(Sampling(seed=6, **PLAIN))
    for position in range(0, 40_000, 2):
        pairs[sampler.choose(logits, range(position)), sampler.choose(logits, range(position + 1))] += 1
    p = distribution(logits, sampler.sampling)
    expected = np.outer(p, p) * pairs.sum()
    assert ((pairs - expected) ** 2 / expected).sum() < 103.4  # 63 degrees of freedom: p < 0.001


@pytest.mark.parametrize("spread", [0.2, 0.6, 1.0])
def test_a_similar_drafter_is_right_as_often_as_proven(spread: float) -> None:
    """At least (1 - TV) / (1 + TV), the bound of Daliri, Musco and Suresh, and more than by drafting the likeliest."""
    generator = np.random.default_rng(1)
    sampler = CoupledSampler(Sampling(seed=2, **PLAIN))
    coupled = argmax = 0
    bounds = []
    for position in range(4000):
        target = generator.normal(0, 1.5, SIZE).astype(np.float32)
        drafter = target + generator.normal(0, spread, SIZE).astype(np.float32)
        token = sampler.choose(target, range(position))
        coupled += sampler.propose(drafter, range(position)).token_id == token
        argmax += int(drafter.argmax()) == token
        p, q = distribution(target, sampler.sampling), distribution(drafter, sampler.sampling)
        distance = np.abs(p - q).sum() / 2
        bounds.append((1 - distance) / (1 + distance))
    assert coupled > argmax
    assert coupled / 4000 > np.mean(bounds) - 0.02


def test_a_tie_goes_to_the_lowest_id_that_is_allowed() -> None:
    greedy = CoupledSampler(Sampling(temperature=0.0))
    row = np.array([1, 4, 4, 0], np.float32)
    assert greedy.choose(row, []) == 1
    assert greedy.choose(row, [], np.array([True, False, True, True])) == 2
