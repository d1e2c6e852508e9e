"""The reference for `homespec.engine.control.acceptance`: the same, every step in the open and none saved.

How likely the target takes each token of a draft, given that it took those before.

log-odds of taking token i = bin of the drafter's confidence + position + θ, where bins and positions belong to the
drafter and θ to the sequence. θ lives on a grid and may jump between rounds (fixed share: Herbster and Warmuth,
"Tracking the Best Expert", 1998), so a switch of text is followed in a few rounds.
The drafter's part is an online logistic regression with a prior, so a bin that was hardly ever seen stays near where it
started. All in all: reliability bins, shrunk from global to this sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from homespec.stats import MAX_DRAFT_TOKENS

Floats = NDArray[np.float64]
Bins = NDArray[np.intp]
Confidences = Sequence[float | None]

_EDGES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Of the confidence bins: finer where drafts are long."""
_GRID = np.linspace(-6.0, 6.0, 17)
_WIDTH, _WIDTH_OF_SURE = 1.6, 0.8
"""How far θ goes without and with the drafter's confidence, which tells much of what a sequence is like."""
_JUMP = 1 / 24
"""Share of the belief that starts afresh each round: texts change about every 24 rounds."""
_HERD, _HERD_STEP = 0.75, 0.04
"""Share of a fresh belief that comes from all sequences of late, and how fast that follows, per batch."""
_BIN_PRIOR, _POSITION_PRIOR = 3.0, 24.0
"""What the starting values are worth, in information: a token of chance p that was judged brings p(1 - p)."""
_MEMORY = 300.0
"""Most information that counts: older rounds fade."""
_BATCH = 8
"""Drafts that are learned from together: the drafter's part moves slowly, and its table takes time to compute."""
_TINY = 1e-300
_POSITIONS = np.arange(MAX_DRAFT_TOKENS)
_BLIND = np.zeros(MAX_DRAFT_TOKENS, np.intp)


@dataclass(frozen=True, slots=True)
class Forecast:
    """Of one draft of one sequence."""

    bins: Bins
    chains: Floats
    """Probability of taking at least 1, 2, … tokens for each θ, shape (tokens, grid)."""
    survival: list[float]
    """The same by what is believed of θ; never rising."""


class _Regression:
    """Log-odds by bin and by position, learned from every token that the target has judged."""

    def __init__(self, bins: Floats) -> None:
        self._bins = bins
        self._positions = np.zeros(MAX_DRAFT_TOKENS)
        self._bin_information = np.zeros(len(bins))
        self._position_information = np.zeros(MAX_DRAFT_TOKENS)
        self._waiting: list[tuple[Forecast, int, int]] = []
        self._compute()

    def chains(self, bins: Bins) -> Floats:
        """Probability of taking at least 1, 2, … tokens for each θ, shape (tokens, grid)."""
        if bins is _BLIND:
            return self._blind_chains
        return np.multiply.accumulate(self._taken[bins, _POSITIONS[: len(bins)]], axis=0)

    def learn(self, forecast: Forecast, num_taken: int, judged: int) -> bool:
        """Of a draft `judged` tokens were judged and `num_taken` taken. True when that has completed a batch."""
        self._waiting.append((forecast, num_taken, judged))
        if len(self._waiting) < _BATCH:
            return False
        self._settle()
        self._waiting.clear()
        return True

    def _settle(self) -> None:
        residuals, positions, bins, information = [], [], [], []
        for forecast, num_taken, judged in self._waiting:
            reached = 1.0
            for position, survives in enumerate(forecast.survival[:judged]):
                expected = survives / reached if reached > 0 else 0.0
                residuals.append((position < num_taken) - expected)
                information.append(expected * (1.0 - expected))
                positions.append(position)
                reached = survives
            bins.append(forecast.bins[:judged])
        places = np.concatenate(bins)
        _follow(self._bins, self._bin_information, places, residuals, information, _BIN_PRIOR)
        _follow(self._positions, self._position_information, positions, residuals, information, _POSITION_PRIOR)
        self._compute()

    def _compute(self) -> None:
        log_odds = self._bins[:, None, None] + self._positions[None, :, None] + _GRID
        self._taken = 1.0 / (1.0 + np.exp(-log_odds))
        """Chance of each token by bin, position and θ."""
        self._blind_chains = np.multiply.accumulate(self._taken[0], axis=0)


def _follow(
    values: Floats,
    known: Floats,
    places: Bins | list[int],
    residuals: list[float],
    information: list[float],
    prior: float,
) -> None:
    """One step towards what was seen, the smaller the more is known; changes `values` and `known`."""
    np.minimum(known + np.bincount(places, information, len(known)), _MEMORY, out=known)
    values += np.bincount(places, residuals, len(values)) / (prior + known)


class _Judge:
    """One regression of a drafter, and the belief about θ of each sequence."""

    def __init__(self, bins: Floats, width: float) -> None:
        self._regression = _Regression(bins)
        self._beliefs: dict[str, Floats] = {}
        start = np.exp(-np.abs(_GRID) / width)
        self._prior: Floats = start / start.sum()
        self._herd = self._start = self._prior

    def forecast(self, sequence_id: str, bins: Bins, num_tokens: int) -> Forecast:
        chains = self._regression.chains(bins)
        survival = chains.dot(self._beliefs.get(sequence_id, self._start)).tolist()
        return Forecast(bins, chains, survival[:num_tokens])

    def learn(self, sequence_id: str, forecast: Forecast, num_taken: int, judged: int) -> None:
        """Of the first `judged` tokens the target took `num_taken`; if that is one less, it refused the last."""
        belief = self._beliefs.get(sequence_id, self._start)
        chains = forecast.chains
        if num_taken == judged:
            belief = belief * chains[num_taken - 1]
        elif num_taken:
            belief = belief * (chains[num_taken - 1] - chains[num_taken])
        else:
            belief = belief * (1.0 - chains[0])
        belief = belief * (1.0 / (float(belief.sum()) + _TINY))
        # What follows may be another text: part of the belief starts afresh.
        self._beliefs[sequence_id] = (1.0 - _JUMP) * belief + _JUMP * self._start
        if self._regression.learn(forecast, num_taken, judged):
            self._herd = (1.0 - _HERD_STEP) * self._herd + _HERD_STEP * belief
            self._start = _HERD * self._herd + (1.0 - _HERD) * self._prior

    def forget(self, sequence_id: str) -> None:
        self._beliefs.pop(sequence_id, None)


class Acceptance:
    """What is known of one drafter: once by the confidence of each token, once without, for drafts yet to be made."""

    def __init__(self, rate: float) -> None:
        """rate: guess at the acceptance of a token before anything has been seen."""
        self._blind = _Judge(np.full(1, float(np.log(rate / (1 - rate)))), _WIDTH)
        middles = (np.asarray([0.0, *_EDGES]) + np.asarray([*_EDGES, 1.0])) / 2
        self._by_confidence = _Judge(np.log(middles / (1 - middles)), _WIDTH_OF_SURE)

    def forecast(self, sequence_id: str, num_tokens: int, confidences: Confidences | None = None) -> Forecast:
        """Of a draft with these confidences; None: of one yet to be made, and the same if one of them is None."""
        judge, bins = self._judge(num_tokens, confidences)
        return judge.forecast(sequence_id, bins, num_tokens)

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
        judge, bins = self._judge(judged, confidences)
        if forecast is None:
            forecast = judge.forecast(sequence_id, bins, judged)
        judge.learn(sequence_id, forecast, min(num_taken, judged), judged)
        if also_blind and judge is not self._blind:
            blind = self._blind.forecast(sequence_id, _BLIND, judged)
            self._blind.learn(sequence_id, blind, min(num_taken, judged), judged)

    def forget(self, sequence_id: str) -> None:
        """The sequence is over; the drafter's own part stays."""
        self._blind.forget(sequence_id)
        self._by_confidence.forget(sequence_id)

    def _judge(self, num_tokens: int, confidences: Confidences | None) -> tuple[_Judge, Bins]:
        if confidences is None or None in confidences:
            return self._blind, _BLIND
        known = confidences[: min(num_tokens, MAX_DRAFT_TOKENS)]
        return self._by_confidence, np.searchsorted(_EDGES, known)  # type: ignore[arg-type]
