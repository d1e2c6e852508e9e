"""Streams that real daemons have sent: at every turn the screen says what the snapshot says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from homespec.status import Phase, Status, Watch
from homespec.tui.app import TopApp
from homespec.units import format_rate
from tests.client.daemon_double import DaemonDouble

from .recording import NAMES, applied, difference, lines, load, turning_points
from .screen import screen_text, top, until

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_what_changed_is_enough(before: Any, after: Any) -> None:
    assert applied(before, difference(before, after)) == after


def test_a_snapshot_that_did_not_change_is_a_short_line() -> None:
    whole = {"a": {"b": 1, "c": None}, "d": [1]}
    assert list(lines([(0, whole), (1, whole), (2, None)]))[1:] == ['{"at":1,"change":{}}', '{"at":2,"lost":true}']


def phases(name: str) -> list[Phase | None]:
    return [step.status.phase if step.status else None for step in turning_points(load(name))]


def test_the_recordings_hold_what_they_are_named_after() -> None:
    assert phases("loading")[0] is Phase.LOADING
    assert phases("loading")[-1] is Phase.READY
    assert {Phase.READY, Phase.RESTARTING} <= set(phases("engine_dead"))
    lost_at = phases("reconnect").index(None)
    assert Phase.READY in phases("reconnect")[:lost_at]
    assert Phase.READY in phases("reconnect")[lost_at:]
    last = {name: [step.status for step in load(name) if step.status] for name in NAMES}
    assert not any(status.drafts for status in last["plain"])
    assert any(status.throughput.acceptance_rate for status in last["speculating"])
    assert any(paused(status) for status in last["paused"])
    watches = [status.memory.monitor.watch for status in last["pressure"] if status.memory and status.memory.monitor]
    assert Watch.WITHDRAWN in watches
    assert watches[0] is watches[-1] is Watch.ADMITTED


def paused(status: Status) -> dict[str, str]:
    controller = status.speculation.controller if status.speculation else None
    return controller.paused if controller else {}


@pytest.mark.parametrize("name", NAMES)
async def test_the_screen_says_what_the_daemon_said(daemon: DaemonDouble, name: str) -> None:
    app = top(daemon.url)
    async with app.run_test(size=(200, 60)) as pilot:
        for step in turning_points(load(name)):
            if step.status is None:
                daemon.stop()
                await _lost(app, pilot)
                daemon.start()
                continue
            daemon.send(step.status)
            await _shown(app, pilot, step.status)
            rows = "\n".join(screen_text(app))
            for text in told(step.status):
                assert text in rows, f"{text!r} is missing in\n{rows}"


async def _lost(app: TopApp, pilot: Pilot[None]) -> None:
    await until(pilot, lambda: "retrying" in "\n".join(screen_text(app)))
    assert "stale" in "\n".join(screen_text(app))


async def _shown(app: TopApp, pilot: Pilot[None], status: Status) -> None:
    def is_shown() -> bool:
        app._tick()
        return app.status == status

    await until(pilot, is_shown)
    await pilot.pause()


def told(status: Status) -> Iterator[str]:
    """What must stand on a wide screen."""
    yield status.phase
    if status.phase is not Phase.READY:
        yield status.detail[:60]
    if status.throughput.tokens_per_second is not None:
        yield format_rate(status.throughput.tokens_per_second)
    if status.throughput.acceptance_length is not None:
        yield f"AL {status.throughput.acceptance_length:.2f}"
    if status.speculation is not None:
        yield f"mode {status.speculation.mode}"
        yield from (drafter.name for drafter in status.speculation.drafters)
    for request in status.requests:
        yield request.id
    if status.events:
        yield status.events[-1].text.split()[0]
