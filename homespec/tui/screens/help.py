"""The keys and the words of the dashboard."""

from __future__ import annotations

from rich.table import Column, Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from homespec.units import clean

_KEYS = (
    ("1 … 6", "overview, requests, memory, speculation, log, chat"),
    ("d", "choose the drafter, and read why each is in its state"),
    ("x", "cancel the selected request, after a question"),
    ("r", "reload the draft model, after a question"),
    ("y  e", "copy the reason; export snapshot and screen"),
    ("n", "with several daemons: show the next one"),
    ("p", "pause the display; snapshots still come in"),
    ("t", "light or dark"),
    ("ctrl+p", "all commands by name"),
    ("↑ ↓ j k g G", "move in requests and log; the wheel and a click do too"),
    ("/  f  esc", "in the log: search, next kind of event, all again"),
    ("esc  i", "in the chat: stop or leave the box, write again"),
    ("q", "quit; the daemon goes on"),
    ("?", "this page; any key but the arrows closes it"),
)
_WORDS = (
    ("AL", "acceptance length: tokens per pass of the target"),
    ("D", "draft tokens proposed in a round"),
    ("accepted", "accepted draft tokens of those proposed"),
    ("TTFT", "time to the first token: of the last answer, and the median"),
    ("by position", "share of rounds that accepted the n-th draft token"),
    ("T(n)", "what a pass of the target over n rows takes"),
    ("heat", "░ more rows cost little … █ each costs a whole pass"),
    ("taken", "bar: what the target took; ┃ what was expected"),
    ("turn", "one sequence in one round"),
    ("strict", "drafting changes no bit of the target's logits"),
    ("distribution", "tokens are exact samples under the batch shape used"),
    ("reused", "prompt tokens found in the KV cache of other requests"),
    ("memory", "━ weights ═ KV cache ╍ compute; in pools the whole"),
    ("", "target, its KV cache, the drafter; ≡ residents ╌ others"),
    ("", "┈ reserve"),
    ("marks", "┃ below it the drafter goes, ┆ above it may come back"),
    ("underlined", "in the chat: what accepted draft tokens wrote"),
)
_WORD_WIDTH = 13
_SCROLLING = {"up", "down", "pageup", "pagedown", "home", "end"}


class HelpScreen(ModalScreen[None]):
    """Any key closes it. `exactness` is the daemon's label and its reason, told where the words are explained."""

    def __init__(self, exactness: tuple[str, str] | None) -> None:
        super().__init__()
        self._exactness = exactness

    def compose(self) -> ComposeResult:
        here = [(f"here: {self._exactness[0]}", self._exactness[1]), ("", "")] if self._exactness else []
        rows = Table.grid(Column(width=_WORD_WIDTH), Column())
        for word, meaning in (*_KEYS, ("", ""), *here, *_WORDS):
            rows.add_row(Text(clean(word), "bold"), Text(clean(meaning)))
        with VerticalScroll(id="help"):
            yield Static(rows)

    def on_mount(self) -> None:
        page = self.query_one("#help")
        page.border_title, page.border_subtitle = "help", "↑ ↓: more   any other key: close"

    def on_key(self, event: events.Key) -> None:
        if event.key not in _SCROLLING:
            self.dismiss()
