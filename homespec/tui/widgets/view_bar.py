"""The line that names the screens with their keys, and on the right the daemon that is watched."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from homespec.tui.line import MUTED, line
from homespec.tui.text import fit_tail
from homespec.units import clean

NAMES = ("overview", "requests", "memory", "speculation", "log", "chat")
"""In the order of their keys, from 1."""


class ViewBar(Widget):
    """Every name can be clicked; the screen that is shown has a sign, not only another colour."""

    class Chosen(Message):
        """A name was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, shown: str) -> None:
        super().__init__()
        self._shown = shown
        self._daemon = ""

    def watching(self, daemon: str) -> None:
        """Name the daemon."""
        if daemon != self._daemon:
            self._daemon = daemon
            self.refresh()

    def render(self) -> Content:
        names = [_name(key, name, name == self._shown) for key, name in enumerate(NAMES, 1)]
        left = line(*names)
        daemon = clean(self._daemon)
        room = self.content_size.width - left.cell_length - len(daemon)
        if room < 1:
            return left.truncate(self.content_size.width)
        # In line with the lines above and below, unless that would glue it to the names.
        return line(left, " " * max(room - 1, 1), (fit_tail(daemon, len(daemon)), MUTED))

    def on_click(self, event: events.Click) -> None:
        edge = 0
        for key, name in enumerate(NAMES, 1):
            edge += _name(key, name, shown=False).cell_length
            if event.x < edge:
                self.post_message(self.Chosen(name))
                return


def _name(key: int, name: str, shown: bool) -> Content:
    """` 2 requests `, or `[2 requests]` of the one that is shown; both are as wide."""
    if shown:
        return line(("[", "$primary"), (f"{key} {name}", "bold $text-primary"), ("]", "$primary"))
    return line(" ", (f"{key}", "bold"), (f" {name} ", MUTED))
