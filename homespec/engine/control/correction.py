"""Factors on a table of costs, learned from the clock while it is used.

log(seen / table) is taken as drift + the factor of the knot + noise: drift is common to everything on the machine and
moves fast, a knot's own factor moves slowly. Both are followed by a Kalman filter whose covariance is kept diagonal, so
a knot that has not been seen for long takes most of a surprise to itself, and one that is seen all the time leaves it
to the drift.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_NOISE = 0.08**2
"""Variance of the logarithm of one timing."""
_DRIFT_STEP = 0.03**2
"""Variance that drift gains per round."""
_DRIFT_LIMIT = 0.5**2
_KNOT_STEP = 0.01**2
_KNOT_LIMIT = 0.3**2
"""Of a knot that has not been seen for long."""
_CLIP = 3.0
"""Standard deviations that one timing may count for: a preempted round says little about the next one."""


class Drift:
    """How much slower than its tables the machine is now."""

    def __init__(self) -> None:
        self.log = 0.0
        self.variance = _DRIFT_STEP
        self.round = 0
        """Timings so far: the clock of all filters that share this drift."""

    @property
    def factor(self) -> float:
        return math.exp(self.log)

    def tick(self) -> None:
        self.round += 1
        self.variance = min(self.variance + _DRIFT_STEP, _DRIFT_LIMIT)


class Corrections:
    """A factor per knot, interpolated in between."""

    def __init__(self, knots: Sequence[int], spread: float, *, pinned: int | None = None) -> None:
        """spread: standard deviation of the logarithm of a knot's factor; the factor of `pinned` stays 1."""
        self._knots = list(knots)
        self._log = [0.0] * len(self._knots)
        self._variance = [0.0 if knot == pinned else spread**2 for knot in self._knots]
        self._limit = [max(variance, _KNOT_LIMIT) if variance else 0.0 for variance in self._variance]
        self._seen_at = [0] * len(self._knots)
        self._factors: NDArray[np.float64] | None = None
        self._knots_around: dict[int, tuple[tuple[int, float], ...]] = {}

    def at(self, x: int) -> float:
        return math.exp(sum(weight * self._log[index] for index, weight in self._around(x)))

    def factors(self, last: int) -> NDArray[np.float64]:
        """By x, from 0 to `last`."""
        if self._factors is None or len(self._factors) != last + 1:
            self._factors = np.exp(np.interp(np.arange(last + 1), self._knots, self._log))
        return self._factors

    def learn(self, x: int, base: float, seconds: float, drift: Drift) -> None:
        """The table says `base` for `x`, the clock says `seconds`."""
        if base <= 0 or seconds <= 0:
            return
        drift.tick()
        around = self._around(x)
        expected, total = drift.log, drift.variance + _NOISE
        for index, weight in around:
            waited = drift.round - self._seen_at[index]
            self._seen_at[index] = drift.round
            variance = min(self._variance[index] + waited * _KNOT_STEP, self._limit[index])
            self._variance[index] = variance
            expected += weight * self._log[index]
            total += weight * weight * variance
        limit = _CLIP * math.sqrt(total)
        surprise = min(max(math.log(seconds / base) - expected, -limit), limit)
        for index, weight in around:
            gain = weight * self._variance[index] / total
            self._log[index] += gain * surprise
            self._variance[index] *= 1.0 - gain * weight
        gain = drift.variance / total
        drift.log += gain * surprise
        drift.variance *= 1.0 - gain
        self._factors = None

    def _around(self, x: int) -> tuple[tuple[int, float], ...]:
        """The knots that decide about `x`, with their weights."""
        if x not in self._knots_around:
            self._knots_around[x] = self._find_around(x)
        return self._knots_around[x]

    def _find_around(self, x: int) -> tuple[tuple[int, float], ...]:
        right = bisect_left(self._knots, x)
        if right == len(self._knots):
            return ((right - 1, 1.0),)
        if self._knots[right] == x or right == 0:
            return ((right, 1.0),)
        share = (x - self._knots[right - 1]) / (self._knots[right] - self._knots[right - 1])
        return ((right - 1, 1.0 - share), (right, share))
