"""What the overview shows is what /status says: every figure, of every recorded daemon, on every size of screen."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from homespec.status import Status
from homespec.tui.app import TopApp
from tests.client.daemon_double import DaemonDouble

from .figures import FIGURES, Figure, changed
from .recording import NAMES, load
from .screen import painted, until, watching
from .snapshots import betting

SIZES = [(80, 24), (120, 40), (200, 60)]
_BARS = re.compile(r"[\s─│╭╮╰╯━═╍╌┈┃┆╸▁▂▃▄▅▆▇█]+")


def last_frame(name: str) -> Callable[[], Status]:
    return lambda: [step.status for step in load(name) if step.status][-1]


FRAMES = {name: last_frame(name) for name in NAMES} | {"betting": betting}


def read(app: TopApp, figure: Figure) -> str:
    """What stands in its place, in words and numbers alone."""
    return _BARS.sub(" ", f" {painted(app, figure.place)} ")


async def show(app: TopApp, pilot: Pilot[None], daemon: DaemonDouble, status: Status) -> None:
    def is_shown() -> bool:
        app._tick()
        return app.status == status

    daemon.send(status)
    await until(pilot, is_shown)
    await pilot.pause()


@pytest.mark.parametrize("name", FRAMES)
async def test_the_overview_says_what_the_status_says(daemon: DaemonDouble, name: str) -> None:
    status = FRAMES[name]()
    async with watching(daemon, status) as (app, pilot):
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await show(app, pilot, daemon, status)
            for figure in FIGURES:
                if figure.only_wide and size != SIZES[-1]:
                    continue
                shown = read(app, figure)
                for text in figure.told(status):
                    assert text in shown, f"{figure.name} at {size}: {text!r} is missing in {shown!r}"


async def test_what_changes_in_the_status_changes_on_the_screen(daemon: DaemonDouble) -> None:
    """One field at a time: a figure that is drawn from anything else stays as it was."""
    before = betting()
    async with watching(daemon, before, SIZES[-1]) as (app, pilot):
        for figure in FIGURES:
            old = set(figure.told(before))
            for path, value in figure.changes.items():
                after = changed(before, path, value)
                new = set(figure.told(after))
                assert new != old, f"{path} is no part of {figure.name}"
                await show(app, pilot, daemon, after)
                shown = read(app, figure)
                assert all(text in shown for text in new), f"{path}: {new - old} is missing in {shown!r}"
                gone = [text for text in old - new if not any(text in each for each in new)]
                assert not [text for text in gone if text in shown], f"{path}: {gone} is still in {shown!r}"
