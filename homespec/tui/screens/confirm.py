"""The question before something that cannot be taken back."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Static

from homespec.units import clean


class Confirm(ModalScreen[bool]):
    """Dismissed with True only when the user agreed. The keys are in the buttons; enter presses the one in focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes"),
        Binding("n,escape,q", "answer(False)", "no"),
        Binding("left,right,tab", "app.focus_next", show=False),
    ]

    def __init__(self, title: str, text: str, yes: str = "yes") -> None:
        """`yes` says what will be done, for example `cancel it`."""
        super().__init__()
        self._question = title
        self._text = text
        self._yes = yes

    def compose(self) -> ComposeResult:
        with Vertical(id="confirm"):
            yield Static(Content(clean(self._text)))
            with Horizontal():
                yield Button(Content(f"y  {self._yes}"), id="yes", variant="warning")
                yield Button(Content("n  no"), id="no")

    def on_mount(self) -> None:
        self.query_one("#confirm").border_title = Content(clean(self._question))
        # The harmless answer is the one that a hasty enter gives.
        self.query_one("#no").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_answer(self, agreed: bool) -> None:
        self.dismiss(agreed)
