"""How sure a mean is, and how wide values spread. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NUM_RESAMPLES = 9999
MIN_VALUES = 5
"""Fewer say nothing about how much they vary."""
_NO_ERROR = 1e-12
"""Far below what a clock can tell: the values are the same."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles."""

    median: float
    q1: float
    q3: float


def spread(values: Sequence[float]) -> Spread | None:
    """None for no values."""
    if not values:
        return None
    q1, median, q3 = np.quantile(np.asarray(values, dtype=np.float64), [0.25, 0.5, 0.75])
    return Spread(float(median), float(q1), float(q3))


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and what it may really be."""

    mean: float
    low: float | None
    """None: too few values to say."""
    high: float | None
    level: float
    """How often such an interval holds the true mean, 0 to 1."""


def mean_interval(strata: Sequence[Sequence[float]], level: float, *, seed: int = 0) -> Interval | None:
    """The mean of all values, with its bootstrap-t interval (Efron and Tibshirani 1993, section 12.5).

    Each stratum is resampled by itself: that copying gains more than prose is no uncertainty. Strata of one value are
    pooled with the others. Resamples are smoothed with noise of variance s²/n, which makes their variance the sample's
    s² (Hesterberg 2004, Unbiasing the bootstrap); else a few values, or equal ones, would have no interval at all.
    The same values give the same interval. None for no values.
    """
    groups = _strata(strata)
    num_values = sum(len(group) for group in groups)
    if not num_values:
        return None
    mean, error = (float(each[0]) for each in _moments([group[np.newaxis] for group in groups]))
    if num_values < MIN_VALUES:
        return Interval(mean, None, None, level)
    if error < _NO_ERROR:
        return Interval(mean, mean, mean, level)
    generator = np.random.default_rng(seed)
    means, errors = _moments([_resampled(group, generator) for group in groups])
    tail = (1 - level) / 2
    low, high = np.quantile((means - mean) / errors, [tail, 1 - tail])
    return Interval(mean, float(mean - high * error), float(mean - low * error), level)


def _resampled(group: Floats, generator: np.random.Generator) -> Floats:
    """(resamples, values)"""
    size = (NUM_RESAMPLES, len(group))
    width = group.std(ddof=1) / np.sqrt(len(group)) if len(group) > 1 else 0.0
    return group[generator.integers(0, len(group), size)] + generator.normal(0.0, width, size)


def _strata(strata: Sequence[Sequence[float]]) -> list[Floats]:
    arrays = [np.asarray(values, dtype=np.float64) for values in strata if len(values)]
    if any(len(array) == 1 for array in arrays):
        return [np.concatenate(arrays)]
    return arrays


def _moments(samples: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Mean over all strata and its standard error, per row; `samples` holds one (rows, values) array per stratum."""
    num_values = sum(sample.shape[1] for sample in samples)
    totals = np.sum([sample.sum(axis=1) for sample in samples], axis=0)
    variances = np.sum(
        [
            sample.shape[1] * sample.var(axis=1, ddof=1) if sample.shape[1] > 1 else 0 * sample[:, 0]
            for sample in samples
        ],
        axis=0,
    )
    return totals / num_values, np.sqrt(variances) / num_values
