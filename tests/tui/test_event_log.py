from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from homespec.status import Event
from homespec.tui.event_log import GAP, EventLog, news

from .snapshots import NOW_UNIX, speculating

KEPT_BY_THE_DAEMON = 8


def events(count: int, start: int = 0) -> list[Event]:
    return [Event(NOW_UNIX + n, "engine" if n % 3 else "drafter", f"event {n}") for n in range(start, start + count)]


def snapshot(*latest: Event, uptime_s: float = 60.0) -> object:
    return replace(speculating(), events=tuple(latest[-KEPT_BY_THE_DAEMON:]), uptime_s=uptime_s)


@given(st.lists(st.integers(0, KEPT_BY_THE_DAEMON - 1), max_size=30))
def test_every_event_is_kept_once_and_in_order(steps: list[int]) -> None:
    """Whatever part of the events a snapshot repeats."""
    log, happened = EventLog(), events(3)
    log.add(snapshot(*happened))  # type: ignore[arg-type]
    for step in steps:
        happened += events(step, start=len(happened))
        log.add(snapshot(*happened))  # type: ignore[arg-type]
    assert log.matching(None, "") == happened
    assert log.num_added == len(happened)


def test_events_that_were_missed_are_told() -> None:
    log, happened = EventLog(), events(40)
    log.add(snapshot(*happened[:5]))  # type: ignore[arg-type]
    log.add(snapshot(*happened))  # type: ignore[arg-type]
    texts = [event.text for event in log.matching(None, "")]
    assert texts == [*(event.text for event in happened[:5]), GAP.text, *(event.text for event in happened[-8:])]


def test_a_daemon_that_starts_anew_has_missed_nothing() -> None:
    log = EventLog()
    log.add(snapshot(*events(5), uptime_s=600.0))  # type: ignore[arg-type]
    log.add(snapshot(*events(2, start=100), uptime_s=1.0))  # type: ignore[arg-type]
    assert [event.text for event in log.matching(None, "")][-2:] == ["event 100", "event 101"]
    assert not log.matching(GAP.kind, "")


def test_a_day_of_events_does_not_grow_it() -> None:
    log = EventLog(capacity=100)
    for start in range(0, 50_000, 5):
        log.add(snapshot(*events(8, start=start)))  # type: ignore[arg-type]
    assert len(log) == 100
    assert log.num_added == 50_003


def test_it_finds_by_kind_and_by_text() -> None:
    log = EventLog()
    log.add(snapshot(*events(7)))  # type: ignore[arg-type]
    assert log.kinds() == ["drafter", "engine"]
    assert [event.text for event in log.matching("drafter", "")] == ["event 0", "event 3", "event 6"]
    assert [event.text for event in log.matching(None, "EVENT 4")] == ["event 4"]
    assert len(log.matching(None, "engine:")) == 4
    assert log.matching("drafter", "event 4") == []


def test_news_are_what_comes_after_the_last_known() -> None:
    known = events(4)
    assert news(tuple(known), known[1]) == tuple(known[2:])
    assert news(tuple(known), None) == tuple(known)
    assert news((), known[0]) == ()
