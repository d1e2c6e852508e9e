"""Draws the pictures in docs/pictures from the recordings: `python -m tests.tui.pictures [NAME…]`."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Input

from homespec.status import Phase, Status, Watch
from homespec.tui.app import TopApp
from homespec.tui.export import self_contained
from homespec.tui.history import sample_of
from tests.client.daemon_double import DaemonDouble, sse

from .recording import Step, load, load_exchange
from .screen import PATIENCE_S, shown, top, until

FOLDER = Path(__file__).parent.parent.parent / "docs" / "pictures"
SIZES = ((80, 24), (120, 40), (200, 60))
ON_A_VIEW = (120, 40)

Moment = Callable[[Status], bool]


@dataclass(frozen=True, slots=True)
class Picture:
    """The screen at one moment of a recording."""

    name: str
    recording: str
    size: tuple[int, int]
    moment: Moment
    """The last snapshot of which this holds."""
    keys: tuple[str, ...] = ()
    is_lost: bool = False
    """The daemon has gone since."""
    is_chat: bool = False
    """The recorded question has been asked, and answered."""


def _is_short(status: Status) -> bool:
    """The drafter is out, and there is no room for it as yet."""
    memory = status.memory
    if memory is None or memory.monitor is None or memory.monitor.watch is not Watch.WITHDRAWN:
        return False
    host = memory.pools[0]
    return host.free_bytes is not None and host.high_bytes is not None and host.free_bytes < host.high_bytes


def _is_paused(status: Status) -> bool:
    controller = status.speculation.controller if status.speculation else None
    return controller is not None and bool(controller.paused)


def _is_busy(status: Status) -> bool:
    return status.throughput.tokens_per_second is not None and bool(status.requests)


STATES: dict[str, tuple[str, Moment]] = {
    "loading": ("loading", lambda status: status.phase is Phase.LOADING),
    "plain": ("plain", _is_busy),
    "speculating": ("speculating", _is_busy),
    "paused": ("paused", _is_paused),
    "pressure": ("pressure", _is_short),
    "engine-dead": ("engine_dead", lambda status: status.phase is Phase.RESTARTING),
}
VIEWS = ("requests", "memory", "speculation", "log")
"""In the order of their keys, from 2."""

PICTURES = (
    *(
        Picture(f"{state}-{size[0]}x{size[1]}", recording, size, moment)
        for (state, (recording, moment)), size in product(STATES.items(), SIZES)
    ),
    *(Picture(view, "speculating", ON_A_VIEW, _is_busy, (str(key),)) for key, view in enumerate(VIEWS, 2)),
    Picture("lost", "reconnect", ON_A_VIEW, lambda status: status.phase is Phase.READY, is_lost=True),
    Picture("memory-pressure", "pressure", ON_A_VIEW, _is_short, ("3",)),
    Picture("chat", "chat", ON_A_VIEW, _is_busy, ("6",), is_chat=True),
)


def moment_of(picture: Picture) -> tuple[list[Step], Status]:
    """What had come before, and what is shown."""
    steps = load(picture.recording)
    last = max(at for at, step in enumerate(steps) if step.status and picture.moment(step.status))
    status = steps[last].status
    assert status is not None
    return steps[: last + 1], status


async def draw(picture: Picture) -> str:
    """SVG of the screen."""
    steps, status = moment_of(picture)
    with DaemonDouble() as daemon:
        app = top(daemon.url)
        async with app.run_test(size=picture.size) as pilot:
            _remember(app, steps)
            daemon.send(status)
            await until(pilot, lambda: app.status == status)
            await pilot.press(*picture.keys)
            daemon.send(status)  # on a busy machine the first one may be old by now
            await until(pilot, lambda: app.status == status and app.view.stale_s is None)
            if picture.is_chat:
                await _ask(daemon, app, pilot, status)
            if picture.is_lost:
                daemon.stop()
                await until(pilot, lambda: (app.view.stale_s or 0) >= 2)
            await pilot.pause(0.3)
            return _settled(self_contained(app.export_screenshot(title="homespec top")))


def _settled(svg: str) -> str:
    """The same without what differs from run to run."""
    return re.sub(r"(?<=127\.0\.0\.1:)\d{5}", "18642", re.sub(r"terminal-\d+", "terminal", svg))


async def _ask(daemon: DaemonDouble, app: TopApp, pilot: Pilot[None], status: Status) -> None:
    """Ask, and have it answered as fast as it was."""
    exchange = load_exchange()
    daemon.chat, daemon.chat_times_s = [sse(data) for data in exchange.data], exchange.times_s
    box = app.view.query_one(Input)
    box.value = exchange.question
    await pilot.press("enter")
    box.blur()
    async with asyncio.timeout(exchange.times_s[-1] + PATIENCE_S):
        while "cut at" not in shown(app, "Turn") and "accepted" not in shown(app, "Turn"):
            daemon.send(status)
            await pilot.pause(0.5)
    await until(pilot, lambda: app.view.stale_s is None)


def _remember(app: TopApp, steps: list[Step]) -> None:
    """What would have been seen until now, each at its time."""
    watch, now_s = app._watch, time.monotonic()
    for step in steps[:-1]:
        if step.status is not None:
            watch.history.add(sample_of(step.status, now_s + step.at_s - steps[-1].at_s))
            watch.log.add(step.status)


def main(names: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    for picture in PICTURES:
        if not names or picture.name in names:
            (FOLDER / f"{picture.name}.svg").write_text(asyncio.run(draw(picture)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
