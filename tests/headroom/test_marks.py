from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.errors import ConfigError
from homespec.headroom.marks import Marks, WantedMarks
from homespec.units import GIB, MIB

sizes = st.integers(1, 2**45)
wanted = st.one_of(st.none(), st.integers(0, 2**40))


def test_the_marks_of_home_boxes() -> None:
    automatic = WantedMarks()
    assert automatic.on(8 * GIB) == Marks(8 * GIB // 20, 8 * GIB // 40, 8 * GIB // 20)
    assert automatic.on(4 * GIB).reserve_bytes == 256 * MIB
    assert automatic.on(64 * GIB).reserve_bytes == GIB
    assert automatic.on(512 * MIB).reserve_bytes == 64 * MIB


@given(sizes, wanted, wanted, st.one_of(st.none(), st.integers(1, 2**40)))
def test_low_is_below_high_and_what_is_set_is_kept(
    total: int, reserve: int | None, low: int | None, high: int | None
) -> None:
    if low is not None and high is not None and low >= high:
        return  # refused with the configuration
    marks = WantedMarks(reserve, low, high).on(total)
    assert 0 <= marks.low_bytes < marks.high_bytes
    assert reserve is None or marks.reserve_bytes == reserve
    assert low is None or marks.low_bytes == low
    assert high is None or marks.high_bytes == high
    assert reserve is not None or marks.reserve_bytes <= total // 8


@pytest.mark.parametrize(("low", "high"), [(8 * GIB, None), (None, 9 * GIB), (GIB, 8 * GIB)])
def test_a_mark_above_everything_there_is_is_refused_with_the_numbers(low: int | None, high: int | None) -> None:
    marks = WantedMarks(low_bytes=low, high_bytes=high)
    with pytest.raises(ConfigError, match=r"_mark_mib: with a mark of .* on CUDA0, which has 8.00 GiB, .*; lower it"):
        marks.check("CUDA0", 8 * GIB)
    marks.check("CPU", 16 * GIB)
    marks.check("unknown", None)
