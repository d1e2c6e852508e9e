from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from homespec.tui.text import age, count, fit, fit_right, fit_tail, number, percent
from homespec.units import clean


@given(st.text(), st.integers(0, 30))
def test_fitting_is_exact_in_cells(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width
    assert cell_len(fit_tail(text, width)) == width
    assert cell_len(fit_right(text, width)) == width


def test_fitting_cuts_where_it_is_told() -> None:
    assert fit("suffix", 4) == "suf…"
    assert fit_tail("chatcmpl-0042", 6) == "…-0042"
    assert fit_right("42", 4) == "  42"
    assert fit("日本語", 4) == "日 …"


def test_the_network_cannot_steer_the_terminal() -> None:
    assert clean("a\x1b[2Jb\r\nc\x9bd") == "a [2Jb c d"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (9_999, "9999"), (12_345, "12.3k"), (456_789, "456k"), (5_600_000, "5.6M"), (7 * 10**9, "7.0G")],
)
def test_counts_stay_short(value: int, shown: str) -> None:
    assert count(value) == shown


def test_unknown_is_a_dash_never_zero() -> None:
    assert number(None) == percent(None) == "–"
    assert number(0.0) == "0.0"
    assert percent(0.0) == "0 %"


def test_ages_are_whole() -> None:
    assert age(1.94) == "1 s"
    assert age(184.0) == "3m 4s"
