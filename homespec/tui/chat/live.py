"""The numbers of the answer that is being written, and of the last one once it is done. Pure but for the clock."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from textual.content import Content

from homespec.client.answer import Answer
from homespec.client.drafted import Progress
from homespec.tui.chat.marked import MarkedText

THINKING = "italic $foreground 65%"


@dataclass(slots=True)
class LiveAnswer:
    """An answer, its marks, and what the daemon said last of its drafting."""

    answer: Answer = field(default_factory=Answer)
    thinking: MarkedText = field(default_factory=MarkedText)
    """What the model wrote to itself before its answer."""
    text: MarkedText = field(default_factory=MarkedText)
    progress: Progress | None = None
    is_done: bool = False

    def add(self, piece: str, progress: Progress | None) -> None:
        """One chunk's text with what it says of drafting."""
        self.progress = progress or self.progress
        text = self.thinking if self.answer.is_thinking else self.text
        text.add(piece, progress.spans if progress else None)

    def content(self) -> Content:
        """As it is drawn: the answer, and before it, quiet and in italics, what led to it."""
        thinking, text = self.thinking.content(), self.text.content()
        parted = "\n\n" if thinking.plain and text.plain else ""
        return Content.assemble(thinking.stylize(THINKING), parted, text)

    @property
    def num_tokens(self) -> int | None:
        """Tokens so far; exact once the answer is done."""
        if self.answer.timings is not None:
            return self.answer.timings.predicted_n
        return self.progress.rounds + self.progress.accepted if self.progress else None

    @property
    def tokens_per_second(self) -> float | None:
        """Since the first token, as this client sees it; the daemon's own number once the answer is done."""
        if self.answer.timings is not None:
            return self.answer.timings.predicted_per_second
        first_s, tokens = self.answer.time_to_first_token_s, self.num_tokens
        if first_s is None or tokens is None or self.is_done:
            return None
        spent_s = time.monotonic() - self.answer.asked_at_s - first_s
        return tokens / spent_s if spent_s > 0 else None

    @property
    def acceptance_length(self) -> float | None:
        report = self.answer.speculation
        if report is not None:
            return report.acceptance_length
        return self.progress.acceptance_length if self.progress else None

    @property
    def num_accepted(self) -> int | None:
        report = self.answer.speculation
        if report is not None:
            return report.accepted
        return self.progress.accepted if self.progress else None
