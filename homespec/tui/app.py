"""The dashboard: keeps the newest snapshot of every daemon, shows one of them, and maps keys to actions."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.css.query import NoMatches
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from homespec.client.http import Client
from homespec.errors import ExitCode
from homespec.status import Status
from homespec.tui import follower
from homespec.tui.admin import Outcome, set_drafter
from homespec.tui.messages import Answered, ConnectionLost, FromDaemon, SnapshotReceived, SnapshotRejected
from homespec.tui.orders import Orders
from homespec.tui.screens.chat import ChatView
from homespec.tui.screens.drafter_choice import DrafterChoice
from homespec.tui.screens.help import HelpScreen
from homespec.tui.screens.log import LogView
from homespec.tui.screens.memory import MemoryView
from homespec.tui.screens.overview import OverviewView
from homespec.tui.screens.requests import RequestsView
from homespec.tui.screens.speculation import SpeculationView
from homespec.tui.screens.view import View
from homespec.tui.themes import DARK, LIGHT
from homespec.tui.watch import Watch
from homespec.tui.widgets.daemon_bar import DaemonBar
from homespec.tui.widgets.view_bar import NAMES, ViewBar
from homespec.units import clean

TICK_S = 0.5
"""The screen is drawn at most this often, however fast snapshots come: what drawing takes is taken from the engine.
Keys are answered at once."""

_WIDTHS = [(0, "-narrow"), (110, "-broad"), (160, "-wide")]
_HEIGHTS = [(0, "-short"), (28, "-roomy"), (33, "-medium"), (39, "-tall"), (49, "-high")]
_VIEWS = (OverviewView, RequestsView, MemoryView, SpeculationView, LogView, ChatView)


class TopApp(Orders):
    """Live view of daemons. Workers post, handlers keep the newest, the tick shows it on the screen in front."""

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
        super().__init__()
        self.register_theme(DARK)
        self.register_theme(LIGHT)
        wanted = os.environ.get("TEXTUAL_THEME", DARK.name)
        self.theme = wanted if wanted in self.available_themes else DARK.name
        self._watches = [Watch(client) for client in clients]
        self._watch = self._watches[0]
        """The one on the screen."""
        self._shown: Status | None = None
        self._first_pause_s = first_pause_s
        self._tick_s = tick_s
        self._paused = False

    @property
    def view(self) -> View:
        """The screen of the dashboard that is shown, also while a question lies over it."""
        view = self.screen_stack[0]
        assert isinstance(view, View)
        return view

    @property
    def client(self) -> Client:
        """Of the daemon on the screen."""
        return self._watch.client

    @property
    def status(self) -> Status | None:
        """The snapshot on the screen."""
        return self.view.status

    def on_mount(self) -> None:
        self._leave_on(signal.SIGTERM, signal.SIGHUP)
        self.set_interval(self._tick_s, self._tick)
        self._tick()
        for watch in self._watches:
            self.run_worker(
                follower.follow(watch.client, self.post_message, self._first_pause_s),
                group="follower",
                description=f"reads /events of {watch.name}",
                exit_on_error=False,
            )

    def on_snapshot_received(self, message: SnapshotReceived) -> None:
        self._take(message)

    def on_snapshot_rejected(self, message: SnapshotRejected) -> None:
        self._take(message)

    def on_connection_lost(self, message: ConnectionLost) -> None:
        self._take(message)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.notify(clean(repr(event.worker.error)), title="a worker failed", severity="error", markup=False)

    def on_answered(self, message: Answered) -> None:
        severity: SeverityLevel = "error" if message.outcome.refused else "information"
        self.notify(message.outcome.text, title=message.title, severity=severity, timeout=8, markup=False)

    def on_daemon_bar_chosen(self, message: DaemonBar.Chosen) -> None:
        self._show_daemon(self._watches[message.index])

    async def on_view_bar_chosen(self, message: ViewBar.Chosen) -> None:
        await self.action_show(message.name)

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        for name in NAMES:
            show = partial(self.call_later, self.action_show, name)
            yield SystemCommand(f"Show {name}", "Another screen of the dashboard", show)
        yield SystemCommand("Drafter", "Choose what drafts, or switch drafting off", self.action_choose_drafter)
        yield from super().get_system_commands(screen)
        if len(self._watches) > 1:
            yield SystemCommand(
                "Next daemon", "Show another one of those that are watched (n)", self.action_next_daemon
            )
        yield SystemCommand("Pause", "Hold the display still, or go on", self.action_pause)
        yield SystemCommand("Light or dark", "Switch between the two", self.action_light_dark)
        yield SystemCommand("Theme", "Choose among all colour themes", self.action_change_theme)
        yield SystemCommand("Help", "The keys and the words", self.action_help)
        yield SystemCommand("Quit", "Leave; the daemon goes on", self.action_quit)

    async def action_show(self, name: str) -> None:
        """Show another screen."""
        await self.switch_mode(name)
        self.view.entered()
        self._tick()

    def action_next_daemon(self) -> None:
        following = self._watches.index(self._watch) + 1
        self._show_daemon(self._watches[following % len(self._watches)])

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._tick()

    def action_light_dark(self) -> None:
        self.theme = LIGHT.name if self.current_theme.dark else DARK.name

    def action_help(self) -> None:
        status = self.status
        self.push_screen(HelpScreen((status.exactness, status.exactness_reason) if status else None))

    def action_choose_drafter(self) -> None:
        latest = self._watch.latest
        self.push_screen(DrafterChoice(latest.speculation if latest else None), self._switch_drafter)

    def ask(self, title: str, asking: Coroutine[None, None, Outcome]) -> None:
        """Ask the daemon something and tell its answer under this title."""
        self.run_worker(self._tell(title, asking), group="admin", exit_on_error=False)

    def _leave_on(self, *signals: signal.Signals) -> None:
        """End as with q, so that the terminal is left as it was found."""
        loop = asyncio.get_running_loop()
        for number in signals:
            loop.add_signal_handler(number, partial(self.exit, return_code=128 + number))

    def _show_daemon(self, watch: Watch) -> None:
        """A display that stands still shows one daemon; another one is shown as it is now."""
        if watch is not self._watch:
            self._watch, self._paused = watch, False
            self._tick()

    def _switch_drafter(self, mode: str | None) -> None:
        if mode is not None:
            self.ask("drafter", set_drafter(self.client, mode))

    async def _tell(self, title: str, asking: Coroutine[None, None, Outcome]) -> None:
        self.post_message(Answered(title, await asking))

    def _take(self, message: FromDaemon) -> None:
        for watch in self._watches:
            if watch.url == message.url:
                watch.take(message)

    def _tick(self) -> None:
        """Show the newest of everything; nothing is drawn again that did not change."""
        if not self._paused:
            self._shown = self._watch.latest
        # A screen that is not up yet lacks its widgets, and one that ends loses them one by one.
        with suppress(NoMatches):
            for view in self.screen_stack[:1]:
                assert isinstance(view, View)
                now_s = time.monotonic()
                view.query_one(DaemonBar).show(self._watches, self._watch, now_s)
                view.take(self._watch, self._shown, now_s, paused=self._paused)


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
