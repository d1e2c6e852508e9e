"""When the plain speed is measured again."""

from __future__ import annotations

from homespec.engine.control.plain_times import PLAIN_EVERY, PlainTimes


def test_the_more_often_it_is_as_thought_the_rarer() -> None:
    times, now, waits = PlainTimes(), 0, []
    for _ in range(6):
        last = now
        while not times.is_due(now):
            now += 1
        waits.append(now - last)
        times.seen(now, 1.0)
    assert waits == [16, 32, 64, PLAIN_EVERY, PLAIN_EVERY, PLAIN_EVERY]


def test_after_a_surprise_it_is_soon_measured_again() -> None:
    """One timing may be an accident, and is learned from in small steps."""
    for ratio in (0.5, 2.0):
        times = PlainTimes()
        times.seen(16, ratio)
        assert not times.is_due(19)
        assert times.is_due(20)


def test_a_plain_round_that_comes_by_itself_is_as_good() -> None:
    times = PlainTimes()
    times.seen(10, 1.0)
    assert not times.is_due(25)
    assert times.age(25) == 15


def test_it_is_never_left_for_good() -> None:
    times = PlainTimes()
    assert not times.is_overdue(2 * PLAIN_EVERY - 1)
    assert times.is_overdue(2 * PLAIN_EVERY)
