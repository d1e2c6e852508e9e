"""The last line of every screen: it names the keys, and holds on to nothing."""

from __future__ import annotations

import gc

from textual.widgets._footer import FooterKey

from tests.client.daemon_double import DaemonDouble

from .screen import screen_text, watching
from .snapshots import betting

SCREENS = "12345"


def num_keys() -> int:
    """Keys in memory, those of all screens and those that are gone."""
    gc.collect()
    return sum(isinstance(each, FooterKey) for each in gc.get_objects())


async def test_keys_that_are_no_longer_shown_are_let_go(daemon: DaemonDouble) -> None:
    async with watching(daemon, betting()) as (app, pilot):
        await pilot.press(*SCREENS)
        before = num_keys()
        await pilot.press(*SCREENS * 2)
        assert num_keys() < before + 2 * len(SCREENS)
        assert "/ search" in screen_text(app)[-1]
