from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from homespec.supervision.load_clock import LoadClock
from homespec.supervision.rest import IdleRule, Rest

SECONDS = st.floats(0, 1e9)


def test_the_drafter_goes_first_and_the_target_after_as_long_again() -> None:
    rule = IdleRule(60)
    assert [rule.due(idle_s) for idle_s in (0, 59, 60, 119, 120, 1e9)] == [
        Rest.NONE,
        Rest.NONE,
        Rest.DRAFTER,
        Rest.DRAFTER,
        Rest.TARGET,
        Rest.TARGET,
    ]


@given(SECONDS, st.none() | SECONDS)
def test_nothing_goes_where_nothing_is_to_go(idle_s: float, keep_s: float | None) -> None:
    assert IdleRule(0).due(idle_s, keep_s) is Rest.NONE


def test_a_client_may_keep_the_target_or_let_it_go() -> None:
    rule = IdleRule(60)
    assert rule.due(1e9, math.inf) is Rest.DRAFTER
    assert rule.due(0, 0) is Rest.TARGET
    assert rule.due(30, 30) is Rest.TARGET


@given(st.floats(0.1, 1e6), SECONDS, SECONDS, st.none() | SECONDS)
def test_more_time_never_gives_anything_back(unload_s: float, less: float, more: float, keep_s: float | None) -> None:
    less, more = sorted((less, more))
    rule = IdleRule(unload_s)
    assert rule.due(less, keep_s) <= rule.due(more, keep_s)


def test_a_load_stands_still_while_nothing_about_it_changes() -> None:
    clock = LoadClock()
    assert clock.stood_still_s(("a", 0.1), 100) == 0
    assert clock.stood_still_s(("a", 0.1), 130) == 30
    assert clock.stood_still_s(("a", 0.2), 140) == 0
    assert clock.stood_still_s(("b", 0.2), 150) == 0  # another engine
    assert clock.stood_still_s(("b", 0.2), 151) == 1
    clock.excuse(8, 160)  # nobody looked
    assert clock.stood_still_s(("b", 0.2), 160) == 2
