from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from homespec.tui.widgets.costs import SHADES, heat, shown_places
from homespec.tui.widgets.reliability import EXPECTED, with_mark


def test_heat_is_the_share_of_the_extra_rows_that_is_paid_for() -> None:
    assert heat(1.0, 1) == heat(1.0, 8) == 0
    assert heat(4.5, 8) == 2
    assert heat(8.0, 8) == heat(11.0, 8) == len(SHADES) - 1
    assert heat(0.9, 4) == 0


@given(st.integers(1, 80), st.integers(1, 40))
def test_what_does_not_fit_is_left_out_before_the_last(count: int, room: int) -> None:
    places = list(shown_places(count, room))
    assert len(places) == min(count, room)
    assert places == sorted(set(places))
    assert places[-1] == count - 1
    assert places[:-1] == list(range(len(places) - 1))


@given(st.text("━─", max_size=40), st.floats(-1, 2))
def test_a_mark_takes_one_cell_of_the_bar(bar: str, share: float) -> None:
    marked = with_mark(bar, share)
    assert len(marked) == len(bar)
    assert marked.count(EXPECTED) == min(len(bar), 1)
