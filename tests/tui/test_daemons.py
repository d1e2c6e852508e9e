"""Several daemons on one dashboard: one is shown, all are followed, and each has its own age."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from textual.pilot import Pilot

from homespec.client.http import Client
from homespec.tui.app import TopApp
from homespec.tui.widgets.daemon_bar import DaemonBar
from tests.client.daemon_double import DaemonDouble

from .screen import RETRY_S, TICK_S, shown, until, until_shown
from .snapshots import loading, plain, speculating


@pytest.fixture
def other() -> Iterator[DaemonDouble]:
    with DaemonDouble() as double:
        yield double


@asynccontextmanager
async def watching(*daemons: DaemonDouble, width: int = 120) -> AsyncIterator[tuple[TopApp, Pilot[None]]]:
    app = TopApp(*(Client(daemon.url) for daemon in daemons), first_pause_s=RETRY_S, tick_s=TICK_S)
    async with app.run_test(size=(width, 40), notifications=True) as pilot:
        yield app, pilot


def name(daemon: DaemonDouble) -> str:
    return f"127.0.0.1:{daemon.port}"


async def test_each_has_a_tab_with_its_state_and_speed(daemon: DaemonDouble, other: DaemonDouble) -> None:
    daemon.send(speculating())
    other.send(plain())
    async with watching(daemon, other) as (app, pilot):
        await until_shown(pilot, "DaemonBar", f"[{name(daemon)} ● 83.1 tok/s]")
        await until_shown(pilot, "DaemonBar", f" {name(other)} ● 24.8 tok/s ")
        other.send(loading())
        await until_shown(pilot, "DaemonBar", f" {name(other)} ◐ loading ")
        assert app.status == speculating()


async def test_one_alone_has_no_tab(daemon: DaemonDouble) -> None:
    daemon.send(speculating())
    async with watching(daemon) as (app, pilot):
        await until(pilot, lambda: app.status == speculating())
        assert not app.view.query_one(DaemonBar).display
        await pilot.press("n")
        assert app.status == speculating()


async def test_a_key_shows_the_next_one_on_every_screen(daemon: DaemonDouble, other: DaemonDouble) -> None:
    daemon.send(speculating())
    other.send(plain())
    async with watching(daemon, other) as (app, pilot):
        await until(pilot, lambda: app.status == speculating())
        for key in "1256":
            await pilot.press(key)
            if key == "6":
                await pilot.press("escape")
            await pilot.press("n")
            await until(pilot, lambda: app.status == plain())
            await pilot.press("n")
            await until(pilot, lambda: app.status == speculating())


async def test_a_click_shows_the_one_that_was_clicked(daemon: DaemonDouble, other: DaemonDouble) -> None:
    daemon.send(speculating())
    other.send(plain())
    async with watching(daemon, other) as (app, pilot):
        await until_shown(pilot, "DaemonBar", "24.8 tok/s")
        at = shown(app, "DaemonBar").index(name(other))
        await pilot.click(DaemonBar, offset=(at + 1, 0))
        await until(pilot, lambda: app.status == plain())


async def test_one_that_is_gone_is_stale_and_the_other_is_not(daemon: DaemonDouble, other: DaemonDouble) -> None:
    daemon.send(speculating())
    other.send(plain())
    async with watching(daemon, other) as (app, pilot):
        await until_shown(pilot, "DaemonBar", "24.8 tok/s")
        other.stop()
        await until_shown(pilot, "DaemonBar", f" {name(other)} ? stale 0 s ")
        assert "● ready" in shown(app, "Header")
        await pilot.press("n")
        await until_shown(pilot, "Banner", f"no connection to {other.url}: connection refused; retrying")
        await until_shown(pilot, "Header", "? stale")
        other.start()
        await until_shown(pilot, "Header", "● ready")


async def test_a_held_display_goes_on_when_another_one_is_shown(daemon: DaemonDouble, other: DaemonDouble) -> None:
    daemon.send(speculating())
    other.send(plain())
    async with watching(daemon, other) as (app, pilot):
        await until_shown(pilot, "DaemonBar", "24.8 tok/s")
        await pilot.press("p", "n")
        await until(pilot, lambda: app.status == plain())
        assert "paused" not in shown(app, "Banner")


async def test_the_tab_that_is_shown_is_always_seen(daemon: DaemonDouble, other: DaemonDouble) -> None:
    daemon.send(speculating())
    other.send(plain())
    async with watching(daemon, other, width=30) as (_, pilot):
        await until_shown(pilot, "DaemonBar", "[127.0.0.1")
        await pilot.press("n")
        await until_shown(pilot, "DaemonBar", f"[{name(other)} ")
