"""Log-odds of a draft token, by the bin of its confidence and by its position, learned from every token that is judged.

An online logistic regression with a prior, so a bin that was hardly ever seen stays near where it started. Beside the
two terms the log-odds have θ, which belongs to the sequence: everything is known for each θ of a grid.

A *place* is a bin and a position in one number, the row of the table of chances.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from homespec.engine.control.reliability import Count
from homespec.stats import MAX_DRAFT_TOKENS

Floats = NDArray[np.float64]

GRID: Floats = np.linspace(-6.0, 6.0, 17)
"""The values of θ."""
_ODDS_OF_GRID: Floats = np.exp(GRID)
_BIN_PRIOR, _POSITION_PRIOR = 3.0, 24.0
"""What the starting values are worth, in information: a token of chance p that was judged brings p(1 - p)."""
_MEMORY = 300.0
"""Most information that counts: older rounds fade."""
_BATCH = 8
"""Drafts that are learned from together: the terms move slowly, and the table takes time to compute."""

FIRST_BIN = tuple(range(MAX_DRAFT_TOKENS))
"""The places of the longest draft whose tokens are all in the first bin."""


def place_of(bin_index: int, position: int) -> int:
    return bin_index * MAX_DRAFT_TOKENS + position


class Regression:
    """Of one drafter."""

    def __init__(self, bins: Sequence[float]) -> None:
        """bins: log-odds of a token of each bin before anything has been seen."""
        self._bins = _Term(bins, _BIN_PRIOR)
        self._positions = _Term([0.0] * MAX_DRAFT_TOKENS, _POSITION_PRIOR)
        self._num_waiting = 0
        """Drafts that the terms have not followed yet."""
        self.counts = [Count() for _ in bins]
        """Of all tokens that were judged, by bin."""
        self._compute()

    def chances(self, place: int) -> Floats:
        """Of the token there, for each θ."""
        chances: Floats = self._chances[place]
        return chances

    def chains(self, places: Sequence[int]) -> Floats:
        """Probability of taking at least 1, 2, … tokens for each θ, shape (tokens, grid)."""
        if places is FIRST_BIN:
            return self._first_chains
        chances: Floats = self._chances.take(places, axis=0)
        return np.multiply.accumulate(chances, axis=0, out=chances)

    def learn(self, places: Sequence[int], survival: Sequence[float], num_taken: int, judged: int) -> bool:
        """Of a draft `judged` tokens were judged and `num_taken` taken. True when that has completed a batch.

        survival: the forecast probability of taking at least 1, 2, … tokens.
        """
        bins, positions, reached = self._bins, self._positions, 1.0
        for position in range(judged):
            survives = survival[position]
            expected = survives / reached if reached > 0 else 0.0
            reached = survives
            is_taken = position < num_taken
            surprise, information = is_taken - expected, expected * (1.0 - expected)
            bin_index = places[position] // MAX_DRAFT_TOKENS
            bins.surprise[bin_index] += surprise
            bins.information[bin_index] += information
            positions.surprise[position] += surprise
            positions.information[position] += information
            count = self.counts[bin_index]
            count.judged += 1
            count.taken += is_taken
            count.expected += expected
        self._num_waiting += 1
        if self._num_waiting < _BATCH:
            return False
        self._num_waiting = 0
        bins.follow()
        positions.follow()
        self._compute()
        return True

    def _compute(self) -> None:
        """Odds multiply where log-odds add: an exponential for each term will do, none for the table."""
        odds = np.multiply.outer(np.exp(self._bins.values), np.exp(self._positions.values)).ravel()
        table = np.multiply.outer(odds, _ODDS_OF_GRID)
        self._chances: Floats = table / (1.0 + table)
        """By place and θ."""
        self._first_chains: Floats = np.multiply.accumulate(self._chances[:MAX_DRAFT_TOKENS], axis=0)


class _Term:
    """One summand of the log-odds."""

    def __init__(self, values: Sequence[float], prior: float) -> None:
        self.values = list(values)
        self._prior = prior
        self._known = [0.0] * len(self.values)
        """Information."""
        self.surprise = [0.0] * len(self.values)
        """Tokens taken, less those expected, that have not been learned from."""
        self.information = [0.0] * len(self.values)
        """What these are worth."""

    def follow(self) -> None:
        """One step towards what was seen, the smaller the more is known."""
        for index, surprise in enumerate(self.surprise):
            if surprise or self.information[index]:
                known = self._known[index] = min(self._known[index] + self.information[index], _MEMORY)
                self.values[index] += surprise / (self._prior + known)
                self.surprise[index] = self.information[index] = 0.0
