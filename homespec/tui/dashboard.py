"""What the dashboard is built on: the newest snapshot of every daemon, one of them shown, and questions to it."""

from __future__ import annotations

import time
from collections.abc import Coroutine
from contextlib import suppress

from textual.app import App
from textual.css.query import NoMatches
from textual.notifications import SeverityLevel
from textual.worker import Worker, WorkerState

from homespec.client.http import Client
from homespec.status import Status
from homespec.tui import follower
from homespec.tui.admin import Outcome
from homespec.tui.messages import Answered, ConnectionLost, FromDaemon, SnapshotReceived, SnapshotRejected
from homespec.tui.screens.view import View
from homespec.tui.watch import Watch
from homespec.tui.widgets.daemon_bar import DaemonBar
from homespec.units import clean

TICK_S = 0.5
"""The screen is drawn at most this often, however fast snapshots come: what drawing takes is taken from the engine.
Keys are answered at once."""


class Dashboard(App[None]):
    """Live view of daemons. Workers post, handlers keep the newest, the tick shows it on the screen in front."""

    def __init__(self, *clients: Client, first_pause_s: float = follower.FIRST_PAUSE_S, tick_s: float = TICK_S) -> None:
        super().__init__()
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

    @property
    def latest(self) -> Status | None:
        """The newest snapshot of the daemon on the screen, also while the display stands still."""
        return self._watch.latest

    @property
    def num_daemons(self) -> int:
        """That are watched."""
        return len(self._watches)

    def on_mount(self) -> None:
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

    def ask(self, title: str, asking: Coroutine[None, None, Outcome]) -> None:
        """Ask the daemon something and tell its answer under this title."""
        self.run_worker(self._tell(title, asking), group="admin", exit_on_error=False)

    async def _tell(self, title: str, asking: Coroutine[None, None, Outcome]) -> None:
        self.post_message(Answered(title, await asking))

    def _show_daemon(self, watch: Watch) -> None:
        """A display that stands still shows one daemon; another one is shown as it is now."""
        if watch is not self._watch:
            self._watch, self._paused = watch, False
            self._tick()

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
