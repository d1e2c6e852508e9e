"""What colour tells is told without it as well: by a word, a sign, or a line."""

from __future__ import annotations

import re

import pytest
from textual.widgets import OptionList

from homespec.status import DraftState, Phase
from homespec.tui.app import TopApp
from homespec.tui.glyphs import TRACK
from homespec.tui.notice import Level
from homespec.tui.pool_bar import DRAFTER, HIGH, KV, LOW, OTHERS, RESERVE, TARGET
from homespec.tui.screens.confirm import Confirm
from homespec.tui.screens.drafter_choice import DrafterChoice
from homespec.tui.screens.help import HelpScreen
from homespec.tui.widgets.banner import SIGNS
from homespec.tui.widgets.costs import SHADES
from homespec.tui.widgets.drafters import STATES
from homespec.tui.widgets.header import PHASES
from homespec.tui.widgets.turn import WHO
from tests.client.daemon_double import DaemonDouble

from .screen import screen_text, until, watching
from .snapshots import betting
from .test_screens import TEXTS

_COLOUR = re.compile(r"#[0-9a-f]{6}", re.IGNORECASE)
FRAME = {"#ff5f57", "#febc2e", "#28c840", "#c5c8c6"}
"""Of the window that the picture draws around the screen."""
MODALS = {"d": DrafterChoice, "question_mark": HelpScreen, "r": Confirm}


async def test_without_colour_every_screen_says_the_same(daemon: DaemonDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with watching(daemon, betting(), (120, 40)) as (app, pilot):
        assert app.no_color
        for key, texts in TEXTS.items():
            await pilot.press(key)
            await until(pilot, lambda: app.status == betting())
            await pilot.pause()
            rows = screen_text(app)
            for text in texts:
                assert any(text in row for row in rows), f"{text!r} is missing in\n" + "\n".join(rows)
            assert_grey(app)
            await pilot.press("escape")
        await pilot.press("1")
        for key, modal in MODALS.items():
            await pilot.press(key)
            await until(pilot, lambda wanted=modal: isinstance(app.screen, wanted))  # type: ignore[misc]
            assert_grey(app)
            await pilot.press("escape")


async def test_without_colour_the_chosen_row_is_underlined(
    daemon: DaemonDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with watching(daemon, betting()) as (app, pilot):
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DrafterChoice))
        await pilot.pause()
        options = app.screen.query_one(OptionList)
        chosen, other = (
            [segment.style is not None and segment.style.underline for segment in options.render_line(y)]
            for y in range(2)
        )
        assert all(chosen)
        assert not any(other)


def assert_grey(app: TopApp) -> None:
    colours = {colour.lower() for colour in _COLOUR.findall(app.export_screenshot())} - FRAME
    assert colours
    assert not {colour for colour in colours if not colour[1:3] == colour[3:5] == colour[5:7]}


def test_every_state_has_a_sign_of_its_own_or_a_word() -> None:
    assert set(PHASES) == set(Phase)
    assert set(STATES) == set(DraftState)
    assert len({sign for sign, _ in STATES.values()}) == len(STATES)
    assert all(SIGNS[level] for level in (Level.WARNING, Level.ERROR))
    assert SIGNS[Level.WARNING] != SIGNS[Level.ERROR]
    assert len(set(WHO.values())) == len(WHO)


def test_shares_and_shades_are_told_apart_by_their_lines() -> None:
    parts = [TARGET, KV, DRAFTER, OTHERS, RESERVE, LOW, HIGH]
    assert len({sign for sign, _ in parts} | {TRACK}) == len(parts) + 1
    assert len(set(SHADES)) == len(SHADES)
