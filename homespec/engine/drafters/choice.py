"""Which drafters a request may use, and in which order they are asked."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.engine.drafters.drafter import Drafter

FREE_TEXTS = {"suffix": "free: looks up this text and past answers", "ngram": "free: looks up earlier text"}
FREE = frozenset({*FREE_TEXTS, "grammar"})
"""Drafters that take next to no time: their drafts are made before it is decided whether to use them."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A drafter that a sequence may get its draft from."""

    drafter: Drafter
    min_confidence: float = 0.0
    """See DraftRequest."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The drafters for a request, or why there is none."""

    candidates: tuple[Candidate, ...]
    """In the order in which they are asked until one proposes something, where nothing better decides."""
    reason: str = ""
    drafters: tuple[Drafter, ...] = ()
    """All that may be used, the preferred one first."""

    @property
    def drafter(self) -> Drafter | None:
        """The one that stands for them all: the model where there is one, else the first that is asked."""
        models = (drafter for drafter in self.drafters if drafter.name not in FREE)
        return next(models, self.drafters[0] if self.drafters else None)
