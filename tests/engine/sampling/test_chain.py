"""The chain against the plainest way to write it down, edge values included."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from homespec.engine.sampling.chain import Logits, adjust, only, shortlist
from homespec.frames import Sampling

# Halves are exact in every float type, so that ties and thresholds are met on purpose, not by rounding.
values = st.integers(-40, 40).map(lambda half: half / 2)
rows = arrays(np.float32, st.integers(1, 40), elements=values)

settings = st.builds(
    Sampling,
    temperature=st.sampled_from([1e-6, 0.05, 0.7, 1.0, 1.5, 100.0]),
    top_k=st.sampled_from([0, 1, 2, 5, 40, 10**6]),
    top_p=st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
)
penalties = st.builds(
    Sampling,
    repeat_penalty=st.sampled_from([1.0, 1.1, 1.3, 2.0, 0.5]),
    presence_penalty=st.sampled_from([0.0, 1.0, -1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.25, -0.5]),
    repeat_last_n=st.sampled_from([-1, 0, 1, 3, 64]),
    logit_bias=st.dictionaries(st.integers(0, 9), st.sampled_from([-100.0, -1.5, 2.0, 100.0])),
)


def slow_adjust(logits: Sequence[float], sampling: Sampling, token_ids: Sequence[int]) -> list[float]:
    adjusted = [logit + sampling.logit_bias.get(token, 0.0) for token, logit in enumerate(logits)]
    last = sampling.repeat_last_n
    window = [] if last == 0 else token_ids if last < 0 else token_ids[-last:]
    for token, count in Counter(window).items():
        if adjusted[token] > 0:
            adjusted[token] /= sampling.repeat_penalty
        else:
            adjusted[token] *= sampling.repeat_penalty
        adjusted[token] -= count * sampling.frequency_penalty + sampling.presence_penalty
    return adjusted


def softmax(logits: dict[int, float], temperature: float = 1.0) -> dict[int, float]:
    highest = max(logits.values())
    weights = {token: math.exp((logit - highest) / temperature) for token, logit in logits.items()}
    total = math.fsum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def slow_shortlist(logits: Sequence[float], sampling: Sampling) -> dict[int, float]:
    """Probabilities of the tokens that may be sampled. Which of equal tokens `top_k` keeps is not said."""
    kept = dict(enumerate(logits))
    if 0 < sampling.top_k < len(kept):
        kept = dict(sorted(kept.items(), key=lambda item: -item[1])[: sampling.top_k])
    if sampling.top_p < 1:
        mass, nucleus = 0.0, {}
        for token, probability in sorted(softmax(kept).items(), key=lambda item: (-item[1], item[0])):
            nucleus[token] = kept[token]
            mass += probability
            if mass >= sampling.top_p - 1e-12:
                break
        kept = nucleus
    if sampling.min_p > 0:
        highest = max(kept.values())
        kept = {
            token: logit for token, logit in kept.items() if logit >= highest + np.float32(math.log(sampling.min_p))
        }
    return softmax(kept, sampling.temperature)


def probabilities(logits: Logits, sampling: Sampling) -> dict[int, float]:
    candidates = shortlist(logits, sampling)
    ids = [int(token) for token in candidates.ids()]
    assert ids == sorted(set(ids))
    assert [candidates.token_at(index) for index in range(len(ids))] == ids
    return dict(zip(ids, (float(each) for each in candidates.probabilities()), strict=True))


def is_decided(logits: Sequence[float], sampling: Sampling) -> bool:
    """Whether `top_k` cuts between two different values, and `top_p` not within rounding of a boundary."""
    ordered = sorted(logits, reverse=True)
    if 0 < sampling.top_k < len(ordered) and ordered[sampling.top_k - 1] == ordered[sampling.top_k]:
        return False
    kept = ordered[: sampling.top_k or None]
    mass = np.cumsum(sorted(softmax(dict(enumerate(kept))).values(), reverse=True))
    return not np.any(np.abs(mass - sampling.top_p) < 1e-9) or sampling.top_p == 1.0


@given(rows, penalties, st.data())
def test_bias_and_penalties_are_those_of_the_plain_definition(
    logits: Logits, sampling: Sampling, data: st.DataObject
) -> None:
    size = max(len(logits), 10)
    logits = np.resize(logits, size)
    token_ids = data.draw(st.lists(st.integers(0, size - 1), max_size=80))
    before = logits.copy()
    adjusted = adjust(logits, sampling, token_ids)
    assert adjusted.dtype == np.float32
    assert np.allclose(adjusted, slow_adjust(logits.tolist(), sampling, token_ids), rtol=1e-5, atol=1e-5)
    assert np.array_equal(logits, before)


def test_without_bias_and_penalties_the_row_is_not_copied() -> None:
    row = np.zeros(5, np.float32)
    assert adjust(row, Sampling(), [1, 2]) is row
    assert only(row, None) is row


@given(rows, settings)
def test_the_shortlist_is_that_of_the_plain_definition(logits: Logits, sampling: Sampling) -> None:
    result = probabilities(logits, sampling)
    if not is_decided(logits.tolist(), sampling):
        assert abs(sum(result.values()) - 1) < 1e-9
        return
    expected = slow_shortlist(logits.tolist(), sampling)
    assert result.keys() == expected.keys()
    for token, probability in expected.items():
        assert result[token] == pytest.approx(probability, rel=1e-6, abs=1e-12)


@given(st.integers(0, 10_000), st.integers(257, 3000), st.sampled_from([0.01, 1.0, 5.0]), settings)
def test_a_large_vocabulary_gives_the_same_shortlist(seed: int, size: int, spread: float, sampling: Sampling) -> None:
    """More tokens than the nucleus looks at first."""
    logits = np.random.default_rng(seed).normal(0, spread, size).astype(np.float32)
    result = probabilities(logits, sampling)
    if is_decided(logits.tolist(), sampling):
        assert result == pytest.approx(slow_shortlist(logits.tolist(), sampling), rel=1e-5, abs=1e-12)


def test_a_nucleus_wider_than_the_first_look_is_found() -> None:
    logits = np.linspace(0, -0.001, 5000, dtype=np.float32)
    result = probabilities(logits, Sampling(temperature=1.0, top_k=0, top_p=0.9, min_p=0.0))
    assert 4490 <= len(result) <= 4510


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(top_k=1, top_p=1.0, min_p=0.0), {1}),
        (Sampling(top_k=0, top_p=0.0, min_p=0.0), {1}),
        (Sampling(top_k=0, top_p=1.0, min_p=1.0), {1}),
        (Sampling(top_k=0, top_p=1.0, min_p=0.0), {0, 1, 2, 3}),
        (Sampling(top_k=10**9, top_p=1.0, min_p=0.0), {0, 1, 2, 3}),
        (Sampling(top_k=2, top_p=1.0, min_p=0.0), {1, 2}),
        (Sampling(top_k=0, top_p=1.0, min_p=0.3), {1, 2}),
    ],
)
def test_edge_values_keep_what_they_should(sampling: Sampling, expected: set[int]) -> None:
    assert probabilities(np.array([0, 3, 2, -1], np.float32), sampling).keys() == expected


def test_equal_tokens_pass_top_p_in_order_of_id() -> None:
    result = probabilities(np.zeros(10, np.float32), Sampling(top_k=0, top_p=0.35, min_p=0.0))
    assert list(result) == [0, 1, 2, 3]


@pytest.mark.parametrize("temperature", [1e-6, 1e-300, 1e-320])
def test_a_tiny_temperature_leaves_the_best_token_alone(temperature: float) -> None:
    result = probabilities(np.array([5, 5.5, -3], np.float32), Sampling(temperature=temperature, top_k=0, top_p=1.0))
    assert result[1] == 1.0


@given(rows, settings, st.data())
def test_a_forbidden_token_cannot_be_sampled(logits: Logits, sampling: Sampling, data: st.DataObject) -> None:
    allowed = data.draw(arrays(np.bool_, len(logits)).filter(np.any))
    for token, probability in probabilities(only(logits, allowed), sampling).items():
        assert allowed[token] or probability == 0
