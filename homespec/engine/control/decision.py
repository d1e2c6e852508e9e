"""What the controller is asked, what it answers, and what it is told afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from homespec.engine.control.choose import Bet
from homespec.engine.control.prices import Prices
from homespec.engine.drafters.drafter import ShouldContinue

PAUSED, DOES_NOT_PAY, PLAIN_MEASURED = "paused", "does not pay", "plain speed measured again"
NOT_MEASURED = "costs not measured yet"
CERTAIN = "grammar"
"""The drafter whose tokens cannot be refused."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a drafter could add to a sequence."""

    drafter: str
    max_tokens: int
    """At least 1."""
    token_ids: Sequence[int] | None = None
    """The draft itself where it costs nothing; None: it is yet to be made, and that takes time."""
    confidences: Sequence[float | None] = ()
    """The drafter's own, one per token of a draft that exists."""

    @property
    def is_free(self) -> bool:
        return self.token_ids is not None

    @property
    def is_guess(self) -> bool:
        """Free, and may be wrong."""
        return self.token_ids is not None and self.drafter != CERTAIN


@dataclass(frozen=True, slots=True)
class Candidate:
    """A sequence of the round."""

    sequence_id: str
    context: int
    """Tokens in the KV cache."""
    offers: Sequence[Offer] = ()
    """The preferred one first. None: it goes without, or its request has fixed what it gets."""
    num_fixed: int = 0
    """Draft tokens that the request has fixed."""


class Decision(NamedTuple):
    """What a sequence drafts in this round, and why."""

    drafter: str | None = None
    num_draft_tokens: int = 0
    reason: str = ""
    """Why nothing is drafted, in a few words: what rounds are counted by."""
    note: str = ""
    """Instead of the numbers, or beside them."""
    bet: Bet | None = None
    """What was placed or turned down."""
    prices: Prices | None = None
    round_s: float = 0.0
    """Seconds that the round should take."""
    should_continue: ShouldContinue | None = None

    @property
    def expected_tokens(self) -> float:
        """With the target's own token."""
        return 1.0 if self.bet is None else 1.0 + sum(self.bet.survival[: self.num_draft_tokens])

    @property
    def price(self) -> str:
        """What a draft that was turned down would have cost, and for what: that with the D that came nearest."""
        assert self.bet is not None
        assert self.prices is not None
        nearest = self.prices.best(self.bet)
        prices = self.prices
        cost = f"{nearest.seconds / prices.plain_s - 1:.2f} T({prices.num_sequences})"
        if prices.rewind_s:
            share = prices.rewind_s / prices.plain_s
            cost += f", {share:.2f} of it for the copy of the recurrent state ({prices.rewind_s * 1000:.1f} ms),"
        return f"draft would cost {cost} for {nearest.gain:.2f} tokens"

    @property
    def text(self) -> str:
        """The decision as a line with its numbers."""
        if self.drafter is None or self.prices is None:
            return f"off: {self.note or self.price}"
        line = f"{self.drafter} D={self.num_draft_tokens}: expected {self.expected_tokens:.1f} tokens"
        line += f" for {self.round_s / self.prices.plain_s:.1f} T({self.prices.num_sequences})"
        return f"{line} ({self.note})" if self.note else line


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a sequence's round."""

    sequence_id: str
    kept: Sequence[int]
    """Tokens that the round added."""
    drafter: str | None = None
    num_draft_tokens: int = 0
    """That the target judged."""
    num_taken: int = 0
    """Of these."""
    confidences: Sequence[float | None] = ()
    """Of these."""


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """What the clock says of a round."""

    rows: int
    """In the target's pass, those that fill it up included."""
    verify_s: float
    draft_s: dict[str, float] = field(default_factory=dict)
    """Of each drafter that was asked."""
    rewind_s: float = 0.0
    """What keeping recurrent states and putting them back took, where that is what drafting needs."""

    @property
    def total_s(self) -> float:
        return self.verify_s + self.rewind_s + sum(self.draft_s.values())

    def at_most(self, limit_s: float) -> RoundTimes:
        """The same with no part longer than that."""
        parts = (self.verify_s, self.rewind_s, *self.draft_s.values())
        if max(parts) <= limit_s:
            return self
        draft_s = {name: min(seconds, limit_s) for name, seconds in self.draft_s.items()}
        return RoundTimes(self.rows, min(self.verify_s, limit_s), draft_s, min(self.rewind_s, limit_s))
