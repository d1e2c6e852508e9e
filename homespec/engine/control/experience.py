"""What has been seen of every drafter: how often it is right, and how far it has followed each sequence."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.engine.control.acceptance import Acceptance, Forecast
from homespec.engine.control.decision import CERTAIN, Candidate, Offer, Outcome
from homespec.status import ReliabilityBin

_FREE_RATE, _MODEL_RATE = 0.5, 0.6
"""Guesses at the acceptance of a token before anything has been seen."""


class Experience:
    """Acceptance per drafter, fed by drafts that were judged and by those that could have been."""

    def __init__(self) -> None:
        self._acceptance: dict[str, Acceptance] = {}
        self._forecasts: dict[tuple[str, str], Forecast] = {}
        """Of this round, by sequence and drafter."""
        self._followed: dict[tuple[str, str], int] = {}
        """By sequence and drafter: tokens of the sequence that the drafter knows."""

    def begin_round(self) -> None:
        self._forecasts.clear()

    def acceptance(self, drafter: str, *, is_free: bool = False) -> Acceptance:
        if drafter not in self._acceptance:
            self._acceptance[drafter] = Acceptance(_FREE_RATE if is_free else _MODEL_RATE)
        return self._acceptance[drafter]

    def survival(self, sequence_id: str, offer: Offer) -> list[float]:
        """Probability that at least 1, 2, … tokens of the offer are taken."""
        if offer.drafter == CERTAIN:
            return [1.0] * offer.max_tokens
        is_free = offer.is_free
        acceptance = self.acceptance(offer.drafter, is_free=is_free)
        forecast = acceptance.forecast(sequence_id, offer.max_tokens, offer.confidences if is_free else None)
        self._forecasts[sequence_id, offer.drafter] = forecast
        return forecast.survival

    def learn(self, candidate: Candidate, outcome: Outcome) -> None:
        """From a draft that was made; and from every draft that existed, used or not, as far as the text now shows.

        So a free drafter that is not bet on shows at no cost when it would be right again.
        """
        # An answer that ends inside a draft has refused nothing.
        num_shown = len(outcome.kept)
        for offer in candidate.offers:
            key = candidate.sequence_id, offer.drafter
            if offer.is_guess and offer.token_ids is not None:
                num_taken = _agreement(offer.token_ids, outcome.kept)
                acceptance = self.acceptance(offer.drafter, is_free=True)
                acceptance.learn(key[0], offer.confidences[:num_shown], num_taken, self._forecasts.get(key))
            elif offer.drafter == outcome.drafter and outcome.num_draft_tokens:
                known = outcome.confidences[:num_shown]
                self.acceptance(offer.drafter).learn(key[0], known, outcome.num_taken, also_blind=True)
                self._followed[key] = candidate.context + num_shown

    def reliability(self) -> dict[str, tuple[ReliabilityBin, ...]]:
        """Of every drafter that has been judged."""
        bins = {name: acceptance.reliability() for name, acceptance in self._acceptance.items()}
        return {name: each for name, each in bins.items() if each}

    def num_to_follow(self, candidate: Candidate, drafter: str) -> int:
        """Tokens of the sequence that went by while the drafter was not asked; it must decode them first."""
        followed = self._followed.setdefault((candidate.sequence_id, drafter), candidate.context)
        return max(candidate.context - followed, 0)

    def forget(self, sequence_id: str) -> None:
        """The sequence is over; what was learned of the drafters stays."""
        for acceptance in self._acceptance.values():
            acceptance.forget(sequence_id)
        for key in [key for key in self._followed if key[0] == sequence_id]:
            del self._followed[key]


def _agreement(draft: Sequence[int], kept: Sequence[int]) -> int:
    """Number of leading tokens that are the same."""
    count = min(len(draft), len(kept))
    for index in range(count):
        if draft[index] != kept[index]:
            return index
    return count
