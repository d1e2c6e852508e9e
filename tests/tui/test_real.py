"""Every screen and key against a real daemon on the demo model: what the widgets say is what /status says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from homespec.client.http import decode_status
from homespec.status import Status
from homespec.tui.app import TopApp
from homespec.tui.screens.chat import ChatView
from homespec.tui.screens.drafter_choice import DrafterChoice
from homespec.tui.screens.help import HelpScreen
from homespec.tui.text import count
from homespec.tui.widgets.acceptance import shown_drafter
from homespec.tui.widgets.rows import Rows
from homespec.units import MIB, format_bytes
from tests.daemons import Daemon, eventually, running
from tests.kits.models import Models

from .screen import shown, top, until, until_shown

pytestmark = [pytest.mark.process, pytest.mark.real]

FLAGS = ("--ctx", "2048", "--slots", "2", "--threads", "1")
# What the other tests switch off is what these screens are about.
SETTINGS = {"HOMESPEC_CONTROLLER": "auto", "HOMESPEC_FIT": "auto"}
LONG = {"prompt": "One, two, three, four, one, two, three, four, one, two,", "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def serving(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One daemon for the module; each test leaves it idle and in mode auto."""
    with running(tmp_path_factory.mktemp("top"), str(models.demo), *FLAGS, environment=SETTINGS) as daemon:
        daemon.complete("One, two, three, one, two, three, one,", 48)
        yield daemon
        assert "Traceback" not in daemon.log()


@asynccontextmanager
async def at(daemon: Daemon, size: tuple[int, int] = (120, 40)) -> AsyncIterator[tuple[TopApp, Pilot[None]]]:
    app = top(daemon.url)
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, lambda: app.status is not None)
        yield app, pilot


def now(daemon: Daemon) -> Status:
    """What /status says, once nothing is in flight."""
    eventually(daemon.is_idle, "nothing is in flight")
    return decode_status(httpx.get(f"{daemon.url}/status").content)


async def test_a_request_is_shown_with_the_numbers_of_the_engine(serving: Daemon) -> None:
    with serving.stream("/v1/completions", {**LONG, "max_tokens": 1500}) as stream:
        stream.first_text()
        async with at(serving) as (app, pilot):
            await pilot.press("2")
            await until(pilot, lambda: bool(app.status and app.status.requests and app.view.selected_request))
            before = _output_tokens(serving)
            await pilot.pause(0.6)
            status = app.status
            assert status is not None
            [request] = status.requests
            after = _output_tokens(serving)
            assert before <= request.num_output_tokens <= after
            text = shown(app, "#request")
            assert request.id in text
            assert f"{request.num_output_tokens} tokens, " in text
            assert f"{request.num_prefilled_tokens} of {request.num_prompt_tokens} prompt tokens" in text
            assert f"AL {request.acceptance_length:.2f}" in text
            [row] = [str(line) for line in [app.view.query_one(Rows)._draw(request, 110)]]
            assert row.split()[1:3] == [str(request.slot), "decode"]
            await pilot.press("4")
            await until(pilot, lambda: "slot 0" in shown(app, "#decisions") or "slot 1" in shown(app, "#decisions"))


async def test_memory_is_what_the_daemon_reads_and_planned(serving: Daemon) -> None:
    status = now(serving)
    memory = status.memory
    assert memory is not None
    assert memory.plan is not None
    async with at(serving) as (app, pilot):
        await pilot.press("3")
        await until(pilot, lambda: format_bytes(memory.target.total_bytes) in shown(app, "#plan"))
        rows = {cells[0]: cells[1:] for cells in map(str.split, shown(app, "#plan").splitlines()) if cells}
        for name, planned, allocated in (
            ("target", memory.plan.target.total_bytes, memory.target.total_bytes),
            ("weights", memory.plan.target.weights_bytes, memory.target.weights_bytes),
            ("KV", memory.plan.target.kv_bytes, memory.target.kv_bytes),
            ("compute", memory.plan.target.compute_bytes, memory.target.compute_bytes),
        ):
            assert " ".join(rows[name][:4]) == f"{format_bytes(planned)} {format_bytes(allocated)}"
            assert rows[name][4] != "-0.0"
        [host] = memory.pools
        pools = shown(app, "#pools")
        assert host.low_bytes is not None
        assert host.high_bytes is not None
        assert f"low {host.low_bytes / MIB:.0f}  high {host.high_bytes / MIB:.0f} MiB" in pools
        title = str(app.view.query_one("#pools").border_title)
        assert f"KV cache {memory.kv_used_tokens} of {memory.kv_total_tokens} tokens" in title
        assert "free drafters" in shown(app, "#verdicts")
        assert memory.monitor is not None
        assert str(memory.monitor.watch) in shown(app, "#pressure")


async def test_speculation_is_what_the_controller_knows(serving: Daemon) -> None:
    eventually(lambda: _controller(serving)["row_costs"], "the costs are known", 60)
    status = now(serving)
    async with at(serving) as (app, pilot):
        await pilot.press("4")
        await until_shown(pilot, "#costs", "T(1) ")
        skips = shown(app, "#skips")
        for reason, times in status.counters.skipped_drafts.items():
            assert any(row.startswith(reason[:20]) and row.endswith(count(times)) for row in skips.splitlines()), skips
        total = sum(status.counters.skipped_drafts.values())
        drafted = sum(stats.num_drafts for stats in status.drafts.values())
        title = str(app.view.query_one("#skips").border_title)
        assert f"{total} of {total + drafted} turns" in title
        name = shown_drafter(status)
        shares = status.drafts[name].acceptance_per_position if name else []
        assert all(f"{share * 100:.0f} %" in shown(app, "#acceptance") for share in shares)


async def test_the_log_holds_every_event_of_the_daemon(serving: Daemon) -> None:
    status = now(serving)
    async with at(serving) as (app, pilot):
        await pilot.press("5")
        rows = app.view.query_one(Rows)
        await until(pilot, lambda: len(rows._items) >= len(status.events))
        assert rows._items == list(status.events)
        await pilot.press("slash", *"ready", "enter")
        assert rows._items == [event for event in status.events if "ready" in f"{event.kind}: {event.text}".casefold()]
        await pilot.press("escape", "home", "f")
        assert {event.kind for event in rows._items} == {sorted({event.kind for event in status.events})[0]}


async def test_the_chat_tells_what_the_daemon_counted(serving: Daemon) -> None:
    before = now(serving).counters
    async with at(serving) as (app, pilot):
        await pilot.press("6")
        box = app.view.query_one(Input)
        assert app.focused is box
        assert isinstance(app.view, ChatView)
        app.view._state.settings.max_tokens = 24
        await pilot.press(*"Hi", "enter")
        await until(pilot, lambda: bool(app.view.query("Turn.-note")))
        after = now(serving).counters
        tokens = after.output_tokens - before.output_tokens
        assert f"{tokens} tokens · " in shown(app, "Turn.-note")
        assert f"tokens     {tokens}" in shown(app, "#chat-stats")
        assert len(shown(app, "Turn.-model")) > len("◆ ")


async def test_every_key_of_the_dashboard(serving: Daemon) -> None:
    async with at(serving, (80, 24)) as (app, pilot):
        for key, name in (("2", "requests"), ("3", "memory"), ("4", "speculation"), ("5", "log"), ("1", "overview")):
            await pilot.press(key)
            await until(pilot, lambda wanted=name: app.current_mode == wanted)  # type: ignore[misc]
        await until_shown(pilot, "Banner", f"{count(now(serving).counters.requests)} requests")
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("down", "x")
        await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
        await pilot.press("p")
        await until_shown(pilot, "Banner", "paused")
        await pilot.press("p")
        dark = app.current_theme.dark
        await pilot.press("t")
        assert app.current_theme.dark is not dark
        for mode, downs in (("off", 1), ("auto", 0)):
            await pilot.press("d")
            await until(pilot, lambda: isinstance(app.screen, DrafterChoice))
            await pilot.press("home", *["down"] * downs, "enter")
            await until(pilot, lambda wanted=mode: _mode(app) == wanted)  # type: ignore[misc]
            assert serving.status()["speculation"]["mode"] == mode
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0
    assert serving.health().status_code == 200


def _controller(daemon: Daemon) -> Any:
    return daemon.status()["speculation"]["controller"]


def _output_tokens(daemon: Daemon) -> int:
    [request] = daemon.status()["requests"]
    return int(request["num_output_tokens"])


def _mode(app: TopApp) -> str | None:
    return app.status.speculation.mode if app.status and app.status.speculation else None
