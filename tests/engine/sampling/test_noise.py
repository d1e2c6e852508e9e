from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.sampling.noise import GumbelNoise

EULER = 0.5772156649

seeds = st.integers(0, 2**63 - 1)
positions = st.integers(0, 200_000)


@given(seeds, positions, st.lists(st.integers(0, 250_000), min_size=1, max_size=20))
def test_a_token_has_the_same_noise_whoever_else_is_asked_about(seed: int, position: int, ids: list[int]) -> None:
    together = GumbelNoise(seed).at(position, np.array(ids))
    alone = [GumbelNoise(seed).at(position, np.array([token]))[0] for token in ids]
    assert together.tolist() == alone


def test_it_is_standard_gumbel_noise() -> None:
    values = np.concatenate([GumbelNoise(11).at(position, np.arange(1000)) for position in range(200)])
    assert np.isfinite(values).all()
    assert abs(values.mean() - EULER) < 0.01
    assert abs(values.var() - np.pi**2 / 6) < 0.03
    # The distribution function exp(-exp(-x)) makes it uniform again.
    uniform = np.sort(np.exp(-np.exp(-values)))
    assert np.abs(uniform - (np.arange(len(uniform)) + 0.5) / len(uniform)).max() < 0.004


@given(seeds, positions)
def test_neighbouring_seeds_and_positions_are_unrelated(seed: int, position: int) -> None:
    ids = np.arange(400)
    base = GumbelNoise(seed).at(position, ids)
    for other in (GumbelNoise(seed + 1).at(position, ids), GumbelNoise(seed).at(position + 1, ids)):
        assert abs(float(np.corrcoef(base, other)[0, 1])) < 0.3
    assert abs(float(np.corrcoef(base[1:], base[:-1])[0, 1])) < 0.3


@given(seeds, positions)
def test_uniform_numbers_are_inside_the_open_interval(seed: int, position: int) -> None:
    assert 0.0 < GumbelNoise(seed).uniform(position) < 1.0


@given(seeds, positions, st.lists(st.integers(0, 200_000), min_size=1, max_size=8))
def test_nothing_that_was_asked_before_makes_a_difference(seed: int, position: int, ids: list[int]) -> None:
    used = GumbelNoise(seed)
    used.at(position + 1, np.arange(5))
    used.uniform(position)
    fresh = GumbelNoise(seed).at(position, np.array(ids))
    assert used.at(position, np.array(ids, np.int32)).tolist() == fresh.tolist()


def test_seeds_are_taken_modulo_two_to_the_64th() -> None:
    assert GumbelNoise(-1).uniform(0) == GumbelNoise(2**64 - 1).uniform(0)
