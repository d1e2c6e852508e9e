from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from hypothesis import given
from hypothesis import strategies as st

from homespec.tui.history import History, Sample, sample_of

from .snapshots import loading, plain, speculating

SPEED = attrgetter("tokens_per_second")


def sample(time_s: float, speed: float | None = 1.0) -> Sample:
    return Sample(time_s, speed, None, None, None)


def test_a_sample_holds_what_the_snapshot_says() -> None:
    assert sample_of(speculating(), 7.0) == Sample(7.0, 83.1, 3.48, 4.1, 1_966 / 8_192)
    assert sample_of(plain(), 7.0) == Sample(7.0, 24.8, 1.0, None, 1_966 / 8_192)
    assert sample_of(loading(), 7.0) == Sample(7.0, None, None, None, None)


def test_no_kv_cache_is_unknown_not_zero() -> None:
    status = speculating()
    assert status.memory is not None
    empty = replace(status, memory=replace(status.memory, kv_total_tokens=0))
    assert sample_of(empty, 0.0).kv_used is None


def test_the_ring_is_bounded_for_ever() -> None:
    history = History(span_s=10, spacing_s=0.5)
    for tick in range(100_000):
        history.add(sample(tick * 0.5))
    assert len(history) == 40


def test_a_flood_cannot_push_out_the_past() -> None:
    history = History(span_s=10, spacing_s=0.5)
    history.add(sample(0.0, 5.0))
    for tick in range(10_000):
        history.add(sample(1.0 + tick / 1e6, 9.0))
    assert history.series(SPEED, 4)[-2:] == [5.0, 9.0] or len(history) == 2


def test_columns_hold_means_and_gaps() -> None:
    history = History(span_s=4, spacing_s=0.25)
    for time_s, speed in ((0.0, 10.0), (0.5, 20.0), (1.0, None), (3.5, 40.0)):
        history.add(sample(time_s, speed))
    assert history.series(SPEED, 4) == [15.0, None, None, 40.0]


def test_an_empty_history_is_all_gaps() -> None:
    assert History().series(SPEED, 3) == [None, None, None]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=60), st.integers(1, 50))
def test_a_finished_column_never_changes(speeds: list[float], columns: int) -> None:
    history = History(span_s=20, spacing_s=0.5)
    times = [tick * 0.5 for tick in range(len(speeds))]
    for time_s, speed in zip(times, speeds, strict=True):
        before = history.series(SPEED, columns)
        history.add(sample(time_s, speed))
        after = history.series(SPEED, columns)
        # Either the chart moved on by one column, or only the newest column is another.
        assert after[:-1] in (before[:-1], before[1:])
