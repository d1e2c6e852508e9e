"""How likely the target takes each token of a draft, given that it took those before.

log-odds of taking token i = bin of the drafter's confidence + position + θ, where bins and positions belong to the
drafter and θ to the sequence. θ lives on a grid and may jump between rounds (fixed share: Herbster and Warmuth,
"Tracking the Best Expert", 1998), so a switch of text is followed in a few rounds. All in all: reliability bins, shrunk
from global to this sequence.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from math import log
from typing import NamedTuple, cast

import numpy as np

from homespec.engine.control.regression import FIRST_BIN, GRID, Floats, Regression, place_of
from homespec.engine.control.reliability import reliability
from homespec.stats import MAX_DRAFT_TOKENS
from homespec.status import ReliabilityBin

Confidences = Sequence[float | None]

_EDGES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Of the confidence bins: finer where drafts are long."""
_WIDTH, _WIDTH_OF_SURE = 1.6, 0.8
"""How far θ goes without and with the drafter's confidence, which tells much of what a sequence is like."""
_JUMP = 1 / 24
"""Share of the belief that starts afresh each round: texts change about every 24 rounds."""
_HERD, _HERD_STEP = 0.75, 0.04
"""Share of a fresh belief that comes from all sequences of late, and how fast that follows, per batch."""
_TINY = 1e-300
_ONES = np.ones(len(GRID))


class Forecast(NamedTuple):
    """Of one draft of one sequence."""

    judge: _Judge
    places: Sequence[int]
    """Of its tokens; see `Regression`."""
    chains: Floats
    """Probability of taking at least 1, 2, … tokens for each θ, shape (tokens, grid)."""
    survival: list[float]
    """The same by what is believed of θ; never rising."""


class _Judge:
    """One regression of a drafter, and the belief about θ of each sequence."""

    def __init__(self, bins: Sequence[float], width: float) -> None:
        """bins: log-odds to start from."""
        self.regression = Regression(bins)
        self._beliefs: dict[str, Floats] = {}
        start = np.exp(-np.abs(GRID) / width)
        self._prior: Floats = start / start.sum()
        self._herd = self._prior
        self._begin_with(self._prior)

    def forecast(self, sequence_id: str, places: Sequence[int], num_tokens: int) -> Forecast:
        chains = self.regression.chains(places)
        survival = chains.dot(self._beliefs.get(sequence_id, self._start)).tolist()
        return Forecast(self, places, chains, survival if len(survival) <= num_tokens else survival[:num_tokens])

    def belief(self, sequence_id: str) -> Floats:
        """Probability of each θ."""
        return self._beliefs.get(sequence_id, self._start)

    def learn(self, sequence_id: str, forecast: Forecast, num_taken: int, judged: int) -> None:
        """Of the first `judged` tokens the target took `num_taken`; if that is one less, it refused the last."""
        chains = forecast.chains
        if num_taken == judged:
            likelihood = chains[num_taken - 1]
        elif num_taken:
            likelihood = chains[num_taken - 1] - chains[num_taken]
        else:
            likelihood = 1.0 - chains[0]
        belief = self._beliefs.get(sequence_id, self._start) * likelihood
        # What follows may be another text: part of the belief starts afresh.
        belief *= (1.0 - _JUMP) / (float(belief.dot(_ONES)) + _TINY)
        belief += self._fresh
        self._beliefs[sequence_id] = belief
        if self.regression.learn(forecast.places, forecast.survival, num_taken, judged):
            settled = (belief - self._fresh) / (1.0 - _JUMP)
            self._herd = (1.0 - _HERD_STEP) * self._herd + _HERD_STEP * settled
            self._begin_with(_HERD * self._herd + (1.0 - _HERD) * self._prior)

    def forget(self, sequence_id: str) -> None:
        self._beliefs.pop(sequence_id, None)

    def _begin_with(self, start: Floats) -> None:
        """What is believed of a sequence that nothing is known of."""
        self._start = start
        self._fresh: Floats = _JUMP * start


class Growing:
    """The forecast of a draft whose confidences come one by one."""

    def __init__(self, judge: _Judge, sequence_id: str) -> None:
        self._judge = judge
        self._chain = judge.belief(sequence_id)
        self._num_tokens = 0

    def add(self, confidence: float) -> float:
        """One more token; the probability that all of them are taken."""
        place = place_of(bisect_left(_EDGES, confidence), self._num_tokens)
        self._chain = self._chain * self._judge.regression.chances(place)
        self._num_tokens += 1
        return float(self._chain.dot(_ONES))


class Acceptance:
    """What is known of one drafter: once by the confidence of each token, once without, for drafts yet to be made."""

    def __init__(self, rate: float) -> None:
        """rate: guess at the acceptance of a token before anything has been seen."""
        self._blind = _Judge([_log_odds(rate)], _WIDTH)
        middles = [(low + high) / 2 for low, high in zip((0.0, *_EDGES), (*_EDGES, 1.0), strict=True)]
        self._by_confidence = _Judge([_log_odds(middle) for middle in middles], _WIDTH_OF_SURE)

    def forecast(self, sequence_id: str, num_tokens: int, confidences: Confidences | None = None) -> Forecast:
        """Of a draft with these confidences; None: of one yet to be made, and the same if one of them is None."""
        if confidences is None or None in confidences:
            return self._blind.forecast(sequence_id, FIRST_BIN, num_tokens)
        known = cast("Sequence[float]", confidences)[:MAX_DRAFT_TOKENS]
        places = [bisect_left(_EDGES, each) * MAX_DRAFT_TOKENS + position for position, each in enumerate(known)]
        return self._by_confidence.forecast(sequence_id, places, num_tokens)

    def grow(self, sequence_id: str) -> Growing:
        """The forecast of a draft that is being made, with confidences."""
        return Growing(self._by_confidence, sequence_id)

    def learn(
        self,
        sequence_id: str,
        confidences: Confidences,
        num_taken: int,
        forecast: Forecast | None = None,
        *,
        also_blind: bool = False,
    ) -> None:
        """The target took the first `num_taken` tokens of a draft with these confidences, and refused the next one.

        forecast: what was forecast for this draft, or for a longer one that starts with it. also_blind: forecasts of
        drafts that are yet to be made will be asked for.
        """
        judged = min(num_taken + 1, len(confidences), MAX_DRAFT_TOKENS)
        if not judged:
            return
        if forecast is None:
            forecast = self.forecast(sequence_id, judged, confidences)
        forecast.judge.learn(sequence_id, forecast, min(num_taken, judged), judged)
        if also_blind and forecast.judge is not self._blind:
            blind = self._blind.forecast(sequence_id, FIRST_BIN, judged)
            self._blind.learn(sequence_id, blind, min(num_taken, judged), judged)

    def forget(self, sequence_id: str) -> None:
        """The sequence is over; the drafter's own part stays."""
        self._blind.forget(sequence_id)
        self._by_confidence.forget(sequence_id)

    def reliability(self) -> tuple[ReliabilityBin, ...]:
        """By confidence; in one bin where the drafter gives none."""
        by_confidence = reliability(self._by_confidence.regression.counts, _EDGES)
        return by_confidence or reliability(self._blind.regression.counts, None)


def _log_odds(chance: float) -> float:
    return log(chance / (1 - chance))
