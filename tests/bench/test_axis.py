from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.bench.axis import around_one, from_zero, round_ticks

positive = st.floats(1e-3, 1e6)


@given(st.lists(positive, min_size=1, max_size=6))
def test_values_lie_on_a_linear_axis_and_its_ticks_are_few(values: list[float]) -> None:
    axis = from_zero(values, 100, 600)
    assert all(100 <= axis.place(value) <= 600.001 for value in values)
    assert axis.ticks()[0] == 0
    assert 3 <= len(axis.ticks()) <= 8
    assert axis.ticks()[-1] == pytest.approx(axis.high)


@given(st.lists(st.floats(0.05, 20), min_size=1, max_size=6))
def test_ratios_lie_on_a_logarithmic_axis_that_shows_one(values: list[float]) -> None:
    axis = around_one(values, 100, 600)
    assert all(100 < axis.place(value) < 600 for value in [*values, 1.0])
    places = [axis.place(tick) for tick in axis.ticks()]
    assert 1.0 in axis.ticks()
    assert all(right - left > 30 for left, right in pairwise(places))


def test_twice_as_fast_and_half_as_fast_are_equally_far() -> None:
    axis = around_one([0.5, 2.0], 0, 100)
    assert axis.place(2.0) - axis.place(1.0) == pytest.approx(axis.place(1.0) - axis.place(0.5))


def test_an_axis_of_nothing_is_still_one() -> None:
    assert from_zero([], 0, 10).ticks()
    assert from_zero([0.0], 0, 10).ticks()
    assert around_one([], 0, 10).ticks()


def test_ticks_are_round() -> None:
    assert round_ticks(0, 9) == [0, 2, 4, 6, 8]
    assert round_ticks(0, 0.23) == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    assert round_ticks(0, 2, least=1) == [0, 1, 2]
