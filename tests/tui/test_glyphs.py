from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from homespec.tui.glyphs import bar_cells, chart, share_cells


def test_bars_fill_to_half_a_cell() -> None:
    assert bar_cells(0.0, 10) == ""
    assert bar_cells(0.55, 10) == "━━━━━╸"
    assert bar_cells(1.0, 4) == bar_cells(7.5, 4) == "━━━━"


def test_a_bar_shows_anything_above_zero() -> None:
    assert bar_cells(0.001, 10) == "╸"
    assert bar_cells(0.001, 0) == ""


@given(st.floats(-1, 2), st.integers(0, 80))
def test_a_bar_never_leaves_its_width(fraction: float, width: int) -> None:
    assert len(bar_cells(fraction, width)) <= width


@given(st.lists(st.integers(0, 2**40), max_size=5), st.integers(0, 80))
def test_shares_fill_the_bar_and_no_more(parts: list[int], width: int) -> None:
    cells = share_cells(parts, sum(parts), width)
    assert len(cells) == len(parts)
    assert sum(cells) <= width
    assert all(size >= 0 for size in cells)
    assert not any(size and not part for size, part in zip(cells, parts, strict=True))


def test_shares_keep_the_proportions() -> None:
    assert share_cells([98, 180, 26], 304, 30) == [10, 17, 3]
    assert share_cells([1, 1000], 2002, 10) == [1, 4]
    assert share_cells([1, 2], 0, 10) == [0, 0]


def test_a_chart_tells_gaps_from_zero() -> None:
    assert chart([None, 0.0, 4.0, 8.0], 1, 8.0) == [" ▁▄█"]
    assert chart([None, 0.0, 4.0, 8.0], 2, 8.0) == ["   █", " ▁██"]


def test_a_chart_without_a_scale_is_flat() -> None:
    assert chart([0.0, 0.0], 1, 0.0) == ["▁▁"]


def test_a_chart_may_start_above_zero() -> None:
    assert chart([1.0, 2.0, 3.0], 1, 3.0, bottom=1.0) == ["▁▄█"]


@given(st.lists(st.none() | st.floats(0, 1e9)), st.integers(1, 12), st.floats(0, 1e9))
def test_a_chart_has_the_size_asked_for(values: list[float | None], height: int, top: float) -> None:
    rows = chart(values, height, top)
    assert [len(row) for row in rows] == [len(values)] * height
