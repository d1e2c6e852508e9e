"""The fast chain against a slow one that reads like its definition."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from homespec.engine.sampling.chain import adjust, only, shortlist
from homespec.frames import Sampling

SIZE = 24
rows = arrays(np.float32, SIZE, elements=st.floats(-30, 30, width=16), unique=True)
histories = st.lists(st.integers(0, SIZE - 1), max_size=30)
settings = st.fixed_dictionaries(
    {
        "temperature": st.sampled_from([1e-6, 0.3, 1.0, 2.5]),
        "top_k": st.sampled_from([0, 1, 2, 5, SIZE - 1, SIZE, 1000]),
        "top_p": st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]),
        "min_p": st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    }
)
penalties = st.fixed_dictionaries(
    {
        "repeat_penalty": st.sampled_from([0.5, 1.0, 1.3]),
        "presence_penalty": st.sampled_from([-1.0, 0.0, 0.7]),
        "frequency_penalty": st.sampled_from([-0.5, 0.0, 0.9]),
        "repeat_last_n": st.sampled_from([-1, 0, 1, 8, 64]),
        "logit_bias": st.dictionaries(st.integers(0, SIZE - 1), st.sampled_from([-100.0, -1.0, 2.0]), max_size=3),
    }
)


def slow_probabilities(logits: NDArray[np.float32], sampling: Sampling) -> dict[int, float]:
    """Sort, cut, cut, cut, divide, normalise."""
    ranked = sorted(enumerate(logits.tolist()), key=lambda pair: (-pair[1], pair[0]))
    if 0 < sampling.top_k < len(ranked):
        ranked = ranked[: sampling.top_k]
    if sampling.top_p < 1:
        weights = [math.exp(logit - ranked[0][1]) for _, logit in ranked]
        mass, kept = 0.0, 0
        while kept == 0 or mass < sampling.top_p * sum(weights) * (1 - 1e-12):
            mass += weights[kept]
            kept += 1
        ranked = ranked[:kept]
    if sampling.min_p > 0:
        limit = ranked[0][1] + math.log(sampling.min_p)
        ranked = [(token, logit) for token, logit in ranked if logit >= limit - 1e-5]
    weights = [math.exp((logit - ranked[0][1]) / sampling.temperature) for _, logit in ranked]
    return {token: weight / sum(weights) for (token, _), weight in zip(ranked, weights, strict=True)}


@given(rows, settings)
def test_the_shortlist_is_what_the_definition_says(logits: NDArray[np.float32], values: dict[str, Any]) -> None:
    sampling = Sampling(**values)
    candidates = shortlist(logits, sampling)
    got = dict(zip(candidates.ids().tolist(), candidates.probabilities().tolist(), strict=True))
    expected = slow_probabilities(logits, sampling)
    # A cut may fall on either side of a token whose weight is the last rounding error of the sum.
    for token in got.keys() ^ expected.keys():
        assert max(got.get(token, 0), expected.get(token, 0)) < 1e-6 or values["min_p"] or values["top_p"] < 1
    for token in got.keys() & expected.keys():
        assert math.isclose(got[token], expected[token], rel_tol=1e-3, abs_tol=1e-6)
    assert candidates.ids().tolist() == sorted(candidates.ids().tolist())
    assert int(logits.argmax()) in got


@given(rows, histories, penalties)
def test_penalties_and_bias_are_those_of_llama_cpp(
    logits: NDArray[np.float32], history: list[int], values: dict[str, Any]
) -> None:
    sampling = Sampling(**values)
    last_n = sampling.repeat_last_n
    window = history if last_n < 0 else history[-last_n:] if last_n else []
    expected = logits.astype(np.float64)
    for token, bias in sampling.logit_bias.items():
        expected[token] += bias
    for token, count in Counter(window).items():
        if expected[token] <= 0:
            expected[token] *= sampling.repeat_penalty
        else:
            expected[token] /= sampling.repeat_penalty
        expected[token] -= count * sampling.frequency_penalty + sampling.presence_penalty
    before = logits.copy()
    assert np.allclose(adjust(logits, sampling, history), expected, rtol=1e-4, atol=1e-4)
    assert np.array_equal(logits, before)


@given(rows)
def test_without_settings_nothing_is_copied(logits: NDArray[np.float32]) -> None:
    assert adjust(logits, Sampling(), [1, 2, 3]) is logits
    assert only(logits, None) is logits


@given(rows, settings, arrays(np.bool_, SIZE).filter(np.any))
def test_a_forbidden_token_is_never_a_candidate(
    logits: NDArray[np.float32], values: dict[str, Any], allowed: NDArray[np.bool_]
) -> None:
    candidates = shortlist(only(logits, allowed), Sampling(**values))
    likely = candidates.ids()[candidates.probabilities() > 0]
    assert allowed[likely].all()


def test_equal_logits_are_cut_by_id() -> None:
    candidates = shortlist(np.zeros(8, np.float32), Sampling(top_k=0, top_p=0.5, min_p=0.0))
    assert candidates.ids().tolist() == [0, 1, 2, 3]


def test_the_nucleus_of_a_large_flat_vocabulary_is_found() -> None:
    candidates = shortlist(np.zeros(5000, np.float32), Sampling(top_k=0, top_p=0.9, min_p=0.0))
    assert len(candidates.ids()) == 4500
