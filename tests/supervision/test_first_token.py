from __future__ import annotations

from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from homespec.status import FirstTokenStatus
from homespec.supervision.first_token import NUM_LATEST, FirstTokenTimes


def test_nothing_is_known_at_first() -> None:
    assert FirstTokenTimes().status() == FirstTokenStatus(0, 0.0, None, None)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=3 * NUM_LATEST))
def test_all_are_counted_and_the_latest_have_a_median(seconds: list[float]) -> None:
    times = FirstTokenTimes()
    for each in seconds:
        times.add(each)
    status = times.status()
    assert status.count == len(seconds)
    assert status.total_s == sum(seconds)
    assert status.last_s == seconds[-1]
    assert status.median_s == median(seconds[-NUM_LATEST:])
