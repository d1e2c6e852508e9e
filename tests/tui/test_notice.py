from __future__ import annotations

from dataclasses import replace

import pytest

from homespec.status import Phase, Status
from homespec.tui.notice import Level, Link, LinkState, Notice, notice_of

from .snapshots import loading, speculating

URL = "http://box:8642"
LIVE = Link(LinkState.LIVE)


def notice(
    status: Status | None, link: Link = LIVE, age_s: float = 0.4, now_s: float = 100.0, paused: bool = False
) -> Notice:
    return notice_of(URL, link, status, age_s, now_s, paused)


def test_all_well_shows_the_totals() -> None:
    text = "42 requests · 12.3k prompt, 4567 reused · 56.8k out · 3 preempted · 20.4k rounds"
    assert notice(speculating()) == Notice(Level.CALM, text)


def test_the_first_connection() -> None:
    assert notice(None, Link()) == Notice(Level.INFO, f"connecting to {URL}")


def test_loading_has_progress() -> None:
    assert notice(loading(0.45)) == Notice(Level.INFO, "45 %  reading weights", 0.45)


@pytest.mark.parametrize(
    ("phase", "level"),
    [
        (Phase.RESTARTING, Level.WARNING),
        (Phase.STALLED, Level.ERROR),
        (Phase.STOPPING, Level.WARNING),
        (Phase.FAILED, Level.ERROR),
    ],
)
def test_phases_say_their_detail(phase: Phase, level: Level) -> None:
    status = replace(speculating(), phase=phase, detail="no progress for 30 s")
    assert notice(status) == Notice(level, f"{phase}: no progress for 30 s")


def test_a_daemon_that_answers_from_less_than_was_asked_for_says_so() -> None:
    status = replace(speculating(), degraded="on the CPU: no GPU")
    assert notice(status) == Notice(Level.WARNING, "degraded: on the CPU: no GPU")


def test_a_lost_connection_counts_down() -> None:
    link = Link(LinkState.LOST, "no connection to x: connection refused", retry_at_s=104.0)
    assert notice(speculating(), link).text == "no connection to x: connection refused; retrying in 4 s"
    assert notice(speculating(), link, now_s=104.2).text == "no connection to x: connection refused; retrying now"
    assert notice(speculating(), link).level is Level.ERROR


def test_a_lost_connection_outranks_a_pause() -> None:
    link = Link(LinkState.LOST, "gone")
    assert notice(speculating(), link, paused=True).level is Level.ERROR
    assert notice(speculating(), paused=True).text.startswith("paused")


def test_silence_on_an_open_stream() -> None:
    assert notice(speculating(), age_s=8.2) == Notice(Level.WARNING, f"connected to {URL}, but no snapshot for 8 s")


def test_a_newer_daemon() -> None:
    link = Link(LinkState.UNREADABLE, "Invalid enum value 'dreaming' - at `$.phase`")
    assert notice(speculating(), link).level is Level.ERROR
    assert "newer version" in notice(None, link).text
    assert "'dreaming'" in notice(None, link).text
