"""What a sequence may lose on free drafts before they have shown what they are good for.

A bet loses at most what its round takes longer than a plain one. A sequence starts with a little to lose, gets a small
share of every round more, and keeps what its drafts win: so the first drafts are short, those of a text that repeats
itself soon long, and one that never does ends close to plain speed, whatever was forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from homespec.engine.control.decision import Candidate, Offer, Outcome
from homespec.engine.control.prices import Prices

START = 1.5
"""Plain rounds."""
_INCOME = 0.02
"""Plain rounds per round: all that can be lost for good."""
_WATCHED = 0.5
"""Plain rounds that a draft token which was right, and not bet on, brings back; up to `START`."""


class Purses:
    """By sequence, in plain rounds of the moment."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}

    def held(self, sequence_id: str) -> float:
        return self._held.get(sequence_id, START)

    def book(
        self, prices: Prices, candidates: Mapping[str, Candidate], outcomes: Sequence[Outcome], spent_s: float
    ) -> None:
        """What each sequence of a round has won or lost by a guess, or would have. What requests have fixed costs
        nobody.
        """
        offers_of = {name: candidate.offers for name, candidate in candidates.items()}
        num_bets = sum(1 for outcome in outcomes if outcome.num_draft_tokens and offers_of[outcome.sequence_id])
        lost = (spent_s - prices.plain_s) / prices.sequences_s / max(num_bets, 1)
        for outcome in outcomes:
            guesses = [offer for offer in offers_of[outcome.sequence_id] if offer.is_guess]
            if outcome.num_draft_tokens and any(guess.drafter == outcome.drafter for guess in guesses):
                self.settle(outcome.sequence_id, (len(outcome.kept) - 1) / prices.num_sequences - lost)
            else:
                self.watch(outcome.sequence_id, was_right=_is_any_right(guesses, outcome.kept))

    def settle(self, sequence_id: str, won: float) -> None:
        """A round with a free draft of this sequence won so many plain rounds; a negative number were lost."""
        self._held[sequence_id] = max(self.held(sequence_id) + won, 0.0) + _INCOME

    def watch(self, sequence_id: str, *, was_right: bool) -> None:
        """A round without a free draft, beside one that existed and would have been right or wrong."""
        held = self.held(sequence_id)
        if was_right:
            held = max(held, min(held + _WATCHED, START))
        self._held[sequence_id] = held + _INCOME

    def forget(self, sequence_id: str) -> None:
        self._held.pop(sequence_id, None)


def _is_any_right(guesses: Sequence[Offer], kept: Sequence[int]) -> bool:
    """Whether one begins with the token that came; no token came to an answer that ended."""
    first = kept[0] if kept else None
    return any(guess.token_ids and guess.token_ids[0] == first for guess in guesses)
