"""The last line: the keys of the screen."""

from __future__ import annotations

from textual.widgets import Footer


class KeyBar(Footer):
    """Lets go of the keys that it no longer shows.

    Textual draws them anew with every change of focus or screen and binds each to the footer, which forgets those that
    are gone only when what they are bound to changes. It never does: 200 KiB would stay for each change.
    """

    async def recompose(self) -> None:
        await super().recompose()
        self.mutate_reactive(Footer.compact)
