"""A trail holds the latest rows without a gap, whatever is added, cut and dropped."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.drafters.trail import Trail
from homespec.engine.llama.taps import Hidden

LIMIT = 12


def rows(start: int, count: int) -> Hidden:
    """Rows that say where they belong."""
    return np.arange(start, start + count, dtype=np.float32).reshape(-1, 1)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("extend"), st.integers(-2, 2), st.integers(1, 9)),
        st.tuples(st.just("cut"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("drop"), st.integers(0, 40), st.just(0)),
    ),
    max_size=20,
)


@given(STEPS)
def test_every_row_is_where_its_position_says(steps: list[tuple[str, int, int]]) -> None:
    trail = Trail(1, LIMIT)
    for what, number, count in steps:
        if what == "extend":
            position = max(0, trail.end + number)
            trail.extend(position, rows(position, count))
            assert trail.end == position + count
        elif what == "cut":
            trail.cut(number)
            assert trail.end <= max(number, 0)
        else:
            end = trail.end
            trail.drop(number)
            assert trail.end == end
            assert trail.first >= min(number, end)
        assert 0 <= trail.end - trail.first <= LIMIT
        assert trail.read(trail.first, trail.end).ravel().tolist() == list(range(trail.first, trail.end))


def test_a_gap_begins_it_anew() -> None:
    trail = Trail(1, LIMIT)
    trail.extend(0, rows(0, 4))
    trail.extend(6, rows(6, 2))
    assert (trail.first, trail.end) == (6, 8)


def test_rows_that_come_again_take_the_place_of_the_old() -> None:
    trail = Trail(1, LIMIT)
    trail.extend(0, rows(0, 4))
    trail.extend(2, rows(2, 1))
    assert (trail.first, trail.end) == (2, 3)


def test_a_missing_row_in_front_is_filled_with_zeros() -> None:
    trail = Trail(1, LIMIT)
    trail.extend(5, rows(5, 2))
    trail.pad(4)
    assert trail.read(4, 7).ravel().tolist() == [0, 5, 6]


def test_a_copy_goes_its_own_way() -> None:
    trail = Trail(1, LIMIT)
    trail.extend(0, rows(0, 4))
    twin = trail.copy()
    twin.cut(2)
    trail.extend(4, rows(4, 1))
    assert (trail.end, twin.end) == (5, 2)
