"""Everything can be read, in the dark and in the light: no text fades on the ground that it stands on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.widgets import Input

from homespec.status import Phase, Status
from homespec.tui.app import TopApp
from homespec.tui.themes import DARK, LIGHT
from tests.client.daemon_double import DaemonDouble

from .contrast import TEXT, contrast, runs, wanted
from .screen import until, until_shown, watching
from .snapshots import betting, loading, squeezed
from .test_colour import MODALS
from .test_screens import answer

THEMES = pytest.mark.parametrize("theme", [DARK.name, LIGHT.name])


def assert_readable(app: TopApp, within: Region | None = None) -> None:
    """`within`: in cells, the text only, without its scroll bar; None: the whole screen."""
    faint = [(run.text, round(run.contrast, 1)) for run in runs(app) if run.contrast < wanted(run.text)]
    if within is not None:
        texts = (run for run in runs(app) if within.contains(run.place.x, run.place.y) and wanted(run.text) == TEXT)
        faint = [(run.text, round(run.contrast, 1)) for run in texts if run.contrast < TEXT]
    assert not faint


def test_the_measure_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)
    assert contrast("#123456", "#123456") == 1.0


@THEMES
async def test_every_screen_can_be_read(daemon: DaemonDouble, theme: str) -> None:
    daemon.chat = answer()
    async with watching(daemon, betting(), (120, 40)) as (app, pilot):
        app.theme = theme
        for key in "12345":
            await _show(daemon, pilot, key)
            assert_readable(app)
        await _show(daemon, pilot, "6")
        assert_readable(app)
        app.screen.query_one(Input).value = "hi"
        await pilot.press("enter")
        await until_shown(pilot, "#chat-stats", "4 of 9")
        await _send(daemon, pilot, betting())
        assert_readable(app)


async def _show(daemon: DaemonDouble, pilot: Pilot[None], key: str) -> None:
    await pilot.press(key)
    await _send(daemon, pilot, betting())


@THEMES
async def test_every_state_can_be_read(daemon: DaemonDouble, theme: str) -> None:
    states = [loading(), squeezed(), *(replace(betting(), phase=phase, detail="a reason") for phase in Phase)]
    async with watching(daemon, betting()) as (app, pilot):
        app.theme = theme
        for status in states:
            await _send(daemon, pilot, status)
            assert_readable(app)


async def _send(daemon: DaemonDouble, pilot: Pilot[None], status: Status) -> None:
    app = pilot.app
    assert isinstance(app, TopApp)
    daemon.send(status)
    # On a busy machine an older one may be dimmed by now.
    await until(pilot, lambda: app.status == status and app.view.stale_s is None)
    await pilot.pause()


@THEMES
async def test_every_question_can_be_read(daemon: DaemonDouble, theme: str) -> None:
    async with watching(daemon, betting()) as (app, pilot):
        app.theme = theme
        for key, modal in MODALS.items():
            await pilot.press(key)
            await until(pilot, lambda wanted=modal: isinstance(app.screen, wanted))  # type: ignore[misc]
            await pilot.pause()
            # What lies under a question is dimmed.
            box = app.screen.query("#help, #confirm, OptionList").first()
            assert_readable(app, box.region)
            await pilot.press("escape")


async def test_light_follows_dark(daemon: DaemonDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watching(daemon, betting()) as (app, pilot):
        assert app.theme == DARK.name
        await pilot.press("t")
        assert app.theme == LIGHT.name
        await pilot.press("t")
        assert app.theme == DARK.name
    monkeypatch.setenv("TEXTUAL_THEME", "nord")
    async with watching(daemon, betting()) as (app, _):
        assert app.theme == "nord"
    monkeypatch.setenv("TEXTUAL_THEME", "no such theme")
    async with watching(daemon, betting()) as (app, _):
        assert app.theme == DARK.name
