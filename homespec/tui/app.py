"""The dashboard: binds the newest snapshot to the panels and keys to actions."""

from __future__ import annotations

import os
import sys
import time
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.notifications import SeverityLevel
from textual.reactive import reactive
from textual.widgets import Footer
from textual.worker import Worker, WorkerState

from homespec.client.failures import describe
from homespec.client.http import Client
from homespec.errors import ExitCode, HomespecError
from homespec.status import Status
from homespec.tui import follower
from homespec.tui.history import History, sample_of
from homespec.tui.messages import ConnectionLost, DrafterSwitched, SnapshotReceived, SnapshotRejected
from homespec.tui.notice import SILENCE_S, Level, Link, LinkState, Notice, notice_of
from homespec.tui.screens.drafter_choice import DrafterChoice
from homespec.tui.screens.help import HelpScreen
from homespec.tui.widgets.acceptance import AcceptancePanel
from homespec.tui.widgets.banner import Banner
from homespec.tui.widgets.drafters import DraftersPanel
from homespec.tui.widgets.events import EventsPanel
from homespec.tui.widgets.header import Header
from homespec.tui.widgets.memory import MemoryPanel
from homespec.tui.widgets.requests import RequestsPanel
from homespec.tui.widgets.speed import SpeedPanel
from homespec.units import clean

TICK_S = 0.25
"""The screen is drawn at most this often, however fast snapshots come."""

_WIDTHS = [(0, "-narrow"), (160, "-wide")]
_HEIGHTS = [(0, "-short"), (27, "-roomy"), (32, "-medium"), (38, "-tall"), (48, "-high")]


class TopApp(App[None]):
    """Live view of one daemon. Workers post, handlers keep the newest, the tick shows it."""

    TITLE = "homespec"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = _WIDTHS
    VERTICAL_BREAKPOINTS = _HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("d", "choose_drafter", "drafter"),
        Binding("p", "pause", "pause"),
        Binding("t", "light_dark", "light/dark"),
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]

    # An app that repaints itself repaints every widget; these only feed the widgets bound to them.
    status: reactive[Status | None] = reactive(None, repaint=False)
    """The snapshot on the screen."""
    stale_s: reactive[int | None] = reactive(None, repaint=False)
    notice: reactive[Notice] = reactive(Notice(Level.INFO, ""), repaint=False)

    def __init__(self, client: Client, first_pause_s: float = follower.FIRST_PAUSE_S) -> None:
        super().__init__()
        self._client = client
        self._first_pause_s = first_pause_s
        self._history = History()
        self._link = Link()
        self._latest: Status | None = None
        self._received_at_s = time.monotonic()
        self._paused = False

    def compose(self) -> ComposeResult:
        yield Header().data_bind(TopApp.status, TopApp.stale_s)
        yield Banner().data_bind(TopApp.notice)
        with Grid(id="panels"):
            yield SpeedPanel(self._history).data_bind(TopApp.status)
            yield AcceptancePanel().data_bind(TopApp.status)
            yield DraftersPanel().data_bind(TopApp.status)
            yield MemoryPanel().data_bind(TopApp.status)
            yield EventsPanel().data_bind(TopApp.status)
            yield RequestsPanel().data_bind(TopApp.status)
        yield Footer()

    def on_mount(self) -> None:
        self.set_interval(TICK_S, self._tick)
        self._tick()
        self.run_worker(
            follower.follow(self._client, self.post_message, self._first_pause_s),
            group="follower",
            description="reads /events",
            exit_on_error=False,
        )

    def on_snapshot_received(self, message: SnapshotReceived) -> None:
        self._latest = message.status
        self._received_at_s = time.monotonic()
        self._link = Link(LinkState.LIVE)
        self._history.add(sample_of(message.status, self._received_at_s))

    def on_snapshot_rejected(self, message: SnapshotRejected) -> None:
        self._link = Link(LinkState.UNREADABLE, message.reason)

    def on_connection_lost(self, message: ConnectionLost) -> None:
        self._link = Link(LinkState.LOST, message.text, time.monotonic() + message.retry_in_s)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.notify(clean(repr(event.worker.error)), title="a worker failed", severity="error", markup=False)

    def on_drafter_switched(self, message: DrafterSwitched) -> None:
        severity: SeverityLevel = "error" if message.refused else "information"
        self.notify(message.text, title="drafter", severity=severity, timeout=8, markup=False)

    def _tick(self) -> None:
        """Show the newest of everything; nothing is drawn again that did not change."""
        now_s = time.monotonic()
        age_s = now_s - self._received_at_s
        if not self._paused:
            self.status = self._latest
        live = self._link.state is LinkState.LIVE and age_s <= SILENCE_S
        self.stale_s = None if live or self.status is None else int(age_s)
        self.screen_stack[0].set_class(self.stale_s is not None, "-stale")
        self.notice = notice_of(self._client.url, self._link, self.status, age_s, now_s, self._paused)

    def action_pause(self) -> None:
        self._paused = not self._paused
        self._tick()

    def action_light_dark(self) -> None:
        self.theme = "textual-light" if self.current_theme.dark else "textual-dark"

    def action_help(self) -> None:
        status = self.status
        self.push_screen(HelpScreen((status.exactness, status.exactness_reason) if status else None))

    def action_choose_drafter(self) -> None:
        speculation = self._latest.speculation if self._latest else None
        self.push_screen(DrafterChoice(speculation), self._switch_drafter)

    def _switch_drafter(self, mode: str | None) -> None:
        if mode is not None:
            self.run_worker(self._ask_for(mode), group="admin", exclusive=True, exit_on_error=False)

    async def _ask_for(self, mode: str) -> None:
        try:
            answer = await self._client.set_drafter(mode)
        except HomespecError as error:
            self.post_message(DrafterSwitched(f"{mode} was refused: {describe(error)}", refused=True))
        else:
            self.post_message(DrafterSwitched(_answer_text(mode, answer), refused=False))


def _answer_text(mode: str, answer: dict[str, object]) -> str:
    """What the daemon said, from the fields that it is known to answer with."""
    drafter, state, reason = (answer.get(key) for key in ("drafter", "state", "reason"))
    parts = [f"mode {answer.get('mode', mode)}", f"drafter {drafter}" if drafter else "", state, reason]
    return clean(" · ".join(str(part) for part in parts if part))


def run(url: str, api_key: str | None) -> int:
    """Run the dashboard in this terminal."""
    in_browser = "TEXTUAL_DRIVER" in os.environ
    if not in_browser and (not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"):
        print("homespec top needs a terminal; 'homespec status' prints plain text.", file=sys.stderr)
        return ExitCode.USAGE
    app = TopApp(Client(url, api_key))
    app.run()
    return app.return_code or ExitCode.OK
