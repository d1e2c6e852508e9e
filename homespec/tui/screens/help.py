"""The keys and the words of the dashboard."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from homespec.units import clean

_KEYS = (
    ("q", "quit"),
    ("d", "choose the drafter, and read why each one is in its state"),
    ("p", "pause the display; snapshots still come in"),
    ("t", "light or dark"),
    ("?", "this page; any key closes it"),
)
_WORDS = (
    ("AL", "acceptance length: tokens per pass of the target"),
    ("D", "draft tokens proposed in a round"),
    ("accepted", "accepted draft tokens of those proposed"),
    ("by position", "share of rounds that accepted the n-th draft token"),
    ("strict", "drafting changes no bit of the target's logits"),
    ("distribution", "every token is an exact sample under the batch shape used"),
    ("reused", "prompt tokens found in the KV cache of earlier requests"),
    ("memory", "━ weights  ═ KV cache  ╍ compute; in pools the whole target, KV cache, drafter"),
    ("pools", "╌ others  ┈ reserve  ┃ low mark: the drafter goes  ┆ high mark: it may come back"),
)


class HelpScreen(ModalScreen[None]):
    """Any key closes it. `exactness` is the daemon's label and its reason, told where the words are explained."""

    def __init__(self, exactness: tuple[str, str] | None) -> None:
        super().__init__()
        self._exactness = exactness

    def compose(self) -> ComposeResult:
        here = [("", ""), (f"here: {self._exactness[0]}", self._exactness[1])] if self._exactness else []
        rows = [_row(*entry) for entry in (*_KEYS, ("", ""), *_WORDS, *here)]
        yield Static(Content("\n").join(rows), id="help")

    def on_mount(self) -> None:
        self.query_one("#help").border_title = "help"

    def on_key(self) -> None:
        self.dismiss()


def _row(word: str, meaning: str) -> Content:
    return Content.assemble((f"{clean(word):<13} ", "bold"), clean(meaning))
