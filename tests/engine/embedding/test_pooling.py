"""States to vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from homespec.engine.embedding.pooling import Floats, Pool, Pooling

STATES = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 20), st.integers(1, 8)), elements=st.floats(-100, 100, width=32)
)


def pooled(pooling: Pooling, states: Floats, *cuts: int, num_dimensions: int | None = None) -> Floats | None:
    pool = Pool(pooling)
    for chunk in np.split(states, sorted(cuts)):
        if len(chunk):
            pool.add(chunk)
    return pool.vector(num_dimensions)


@pytest.mark.parametrize(
    ("pooling", "expected"), [(Pooling.MEAN, [0.8, 0.6]), (Pooling.CLS, [1.0, 0.0]), (Pooling.LAST, [0.0, 1.0])]
)
def test_which_states_make_the_vector(pooling: Pooling, expected: list[float]) -> None:
    states = np.array([[8, 0], [0, 0], [0, 6]], np.float32)
    vector = pooled(pooling, states)
    assert vector is not None
    assert vector.tolist() == pytest.approx(expected)


@given(states=STATES, cuts=st.lists(st.integers(0, 20), max_size=4), pooling=st.sampled_from(Pooling))
def test_where_a_text_is_cut_does_not_matter(states: Floats, cuts: list[int], pooling: Pooling) -> None:
    whole, cut = pooled(pooling, states), pooled(pooling, states, *cuts)
    assert (whole is None) == (cut is None)
    if whole is not None and cut is not None:
        np.testing.assert_allclose(cut, whole, rtol=1e-5, atol=1e-6)
        assert whole.dtype == np.float32
        assert float(np.linalg.norm(whole)) == pytest.approx(1, abs=1e-5)


@given(states=STATES, pooling=st.sampled_from(Pooling), data=st.data())
def test_fewer_dimensions_point_the_same_way(states: Floats, pooling: Pooling, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, states.shape[1]))
    whole, few = pooled(pooling, states), pooled(pooling, states, num_dimensions=count)
    if whole is None or few is None:
        return
    assert few.shape == (count,)
    assert float(np.linalg.norm(few)) == pytest.approx(1, abs=1e-5)
    kept = whole[:count]
    np.testing.assert_allclose(few * np.linalg.norm(kept), kept, atol=1e-5)


@pytest.mark.parametrize("states", [[[0.0, 0.0]], [[1.0, np.nan]], [[np.inf, 1.0]]])
def test_what_has_no_direction_is_no_vector(states: list[list[float]]) -> None:
    assert pooled(Pooling.MEAN, np.array(states, np.float32)) is None
