"""An answer as it grows, with the stretches that accepted draft tokens wrote. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from homespec.tui.text import printable

DRAFTED = "$text-success underline"
"""A tint, and a line for those who see no colours."""


class MarkedText:
    """Runs of text, each drafted or not; neighbours of one kind are one run, so a long answer stays small."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, bool]] = []
        self.knows_drafts = False
        """Whether the daemon has said anything of drafted text."""

    @property
    def drafted_share(self) -> float | None:
        """Share of the characters; None while nothing is known."""
        total = sum(len(text) for text, _ in self.runs)
        drafted = sum(len(text) for text, is_drafted in self.runs if is_drafted)
        return drafted / total if total and self.knows_drafts else None

    def add(self, text: str, spans: Sequence[tuple[int, int]] | None) -> None:
        """`spans`: half-open ranges of characters of `text`, ascending; None: the daemon does not say."""
        self.knows_drafts = self.knows_drafts or spans is not None
        end = 0
        for start, stop in spans or ():
            self._append(text[end:start], is_drafted=False)
            self._append(text[max(start, end) : stop], is_drafted=True)
            end = max(end, stop)
        self._append(text[end:], is_drafted=False)

    def content(self) -> Content:
        """The text as it is drawn. A model's control characters do not reach a terminal."""
        return Content.assemble(
            *((printable(text), DRAFTED) if is_drafted else printable(text) for text, is_drafted in self.runs)
        )

    def _append(self, text: str, *, is_drafted: bool) -> None:
        if not text:
            return
        if self.runs and self.runs[-1][1] is is_drafted:
            text = self.runs.pop()[0] + text
        self.runs.append((text, is_drafted))
