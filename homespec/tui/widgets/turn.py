"""One entry of a conversation on the screen."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from homespec.tui.text import printable

WHO = {"you": "›", "model": "◆", "note": "·", "error": "✗"}
"""Who speaks: a sign in front, not only a colour."""


class Turn(Static):
    """Who said it is a class of the widget and a sign before the text."""

    def __init__(self, who: str, text: Content | str = "") -> None:
        super().__init__(classes=f"-{who}")
        self._sign = WHO[who]
        self.show(text)

    def show(self, text: Content | str) -> None:
        """The whole text so far."""
        content = text if isinstance(text, Content) else Content(printable(text))
        self.update(Content.assemble((f"{self._sign} ", "bold"), content))
