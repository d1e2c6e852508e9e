"""`homespec top`: the screens of the dashboard, and the keys and commands that lead to everything."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from homespec.client.http import Client
from homespec.errors import ExitCode
from homespec.tui import follower
from homespec.tui.admin import set_drafter
from homespec.tui.dashboard import TICK_S
from homespec.tui.orders import Orders
from homespec.tui.screens.chat import ChatView
from homespec.tui.screens.drafter_choice import DrafterChoice
from homespec.tui.screens.help import HelpScreen
from homespec.tui.screens.log import LogView
from homespec.tui.screens.memory import MemoryView
from homespec.tui.screens.overview import OverviewView
from homespec.tui.screens.requests import RequestsView
from homespec.tui.screens.speculation import SpeculationView
from homespec.tui.themes import DARK, LIGHT
from homespec.tui.widgets.view_bar import NAMES, ViewBar

_WIDTHS = [(0, "-narrow"), (110, "-broad"), (160, "-wide")]
_HEIGHTS = [(0, "-short"), (28, "-roomy"), (33, "-medium"), (39, "-tall"), (49, "-high")]
_VIEWS = (OverviewView, RequestsView, MemoryView, SpeculationView, LogView, ChatView)


class TopApp(Orders):
    """What a user sees and presses."""

    TITLE = "homespec"
    CSS_PATH = "app.tcss"
    DEFAULT_MODE = OverviewView.NAME
    MODES: ClassVar = {view.NAME: view for view in _VIEWS}
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(key), f"show('{name}')", name, show=False) for key, name in enumerate(NAMES, 1)),
        Binding("q", "quit", "quit"),
        Binding("d", "choose_drafter", "drafter"),
        Binding("p", "pause", "pause"),
        Binding("n", "next_daemon", "next daemon", show=False),
        Binding("t", "light_dark", "light/dark", show=False),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]

    def __init__(self, *clients: Client, first_pause_s: float = follower.FIRST_PAUSE_S, tick_s: float = TICK_S) -> None:
        super().__init__(*clients, first_pause_s=first_pause_s, tick_s=tick_s)
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        wanted = os.environ.get("TEXTUAL_THEME", DARK.name)
        self.theme = wanted if wanted in self.available_themes else DARK.name

    def on_mount(self) -> None:
        self._leave_on(signal.SIGTERM, signal.SIGHUP)

    async def on_view_bar_chosen(self, message: ViewBar.Chosen) -> None:
        await self.action_show(message.name)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for name in NAMES:
            show = partial(self.call_later, self.action_show, name)
            yield SystemCommand(f"Show {name}", "Another screen of the dashboard", show)
        yield SystemCommand("Drafter", "Choose what drafts, or switch drafting off", self.action_choose_drafter)
        yield from super().get_system_commands(screen)
        if self.num_daemons > 1:
            yield SystemCommand(
                "Next daemon", "Show another one of those that are watched (n)", self.action_next_daemon
            )
        yield SystemCommand("Pause", "Hold the display still, or go on", self.action_pause)
        yield SystemCommand("Light or dark", "Switch between the two", self.action_light_dark)
        yield SystemCommand("Theme", "Choose among all colour themes", self.action_change_theme)
        yield SystemCommand("Help", "The keys and the words", self.action_help)
        yield SystemCommand("Quit", "Leave; the daemon goes on", self.action_quit)

    def action_light_dark(self) -> None:
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def action_help(self) -> None:
        status = self.status
        self.push_screen(HelpScreen((status.exactness, status.exactness_reason) if status else None))

    def action_choose_drafter(self) -> None:
        latest = self.latest
        self.push_screen(DrafterChoice(latest.speculation if latest else None), self._switch_drafter)

    def _switch_drafter(self, mode: str | None) -> None:
        if mode is not None:
            self.ask("drafter", set_drafter(self.client, mode))

    def _leave_on(self, *signals: signal.Signals) -> None:
        """End as with q, so that the terminal is left as it was found."""
        loop = asyncio.get_running_loop()
        for number in signals:
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))


def run(urls: Sequence[str], api_key: str | None) -> int:
    """Run the dashboard of the daemons in this terminal."""
    in_browser = "TEXTUAL_DRIVER" in os.environ
    if not in_browser and (not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"):
        print("homespec top needs a terminal; 'homespec status' prints plain text.", file=sys.stderr)
        return ExitCode.USAGE
    clients = {client.url: client for client in (Client(url, api_key) for url in urls)}
    app = TopApp(*clients.values())
    app.run()
    return app.return_code or ExitCode.OK
