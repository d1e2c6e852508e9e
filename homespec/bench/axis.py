"""Scales of a plot: from values to places, and the round numbers to write beside them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1, 2, 5, 10)
_RATIO_TICKS = (0.1, 0.2, 0.25, 0.33, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10, 20)
_RATIO_MARGIN = 1.04
_MIN_GAP = 40.0
"""Between two numbers on a ratio axis, in the plot's units."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps [low, high] to [start, end]; a logarithmic one needs values above 0."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False
    is_whole: bool = False

    def place(self, value: float) -> float:
        low, high, at = (self._scaled(each) for each in (self.low, self.high, value))
        return self.start + (at - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.is_log:
            return self._ratio_ticks()
        return round_ticks(self.low, self.high, least=1.0 if self.is_whole else 0.0)

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.is_log else value

    def _ratio_ticks(self) -> list[float]:
        """1 is always there; others where they have room."""
        ticks = [1.0]
        inside = [tick for tick in _RATIO_TICKS if self.low <= tick <= self.high]
        for tick in sorted(inside, key=lambda each: abs(math.log(each))):
            if all(abs(self.place(tick) - self.place(other)) >= _MIN_GAP for other in ticks):
                ticks.append(tick)
        return sorted(ticks)


def from_zero(values: Sequence[float], start: float, end: float) -> Axis:
    """A linear axis that begins at 0, with a round end."""
    top = max(values, default=1.0) or 1.0
    step = _step(top)
    return Axis(0.0, math.ceil(top / step - 1e-9) * step, start, end)


def of_counts(values: Sequence[float], start: float, end: float) -> Axis:
    """A linear axis of whole numbers that begins at 0."""
    return Axis(0.0, max(max(values, default=1.0), 1.0), start, end, is_whole=True)


def around_one(values: Sequence[float], start: float, end: float) -> Axis:
    """A logarithmic axis of ratios that holds 1 and is never narrower than ± 10 %."""
    low, high = min([*values, 0.9]) / _RATIO_MARGIN, max([*values, 1.1]) * _RATIO_MARGIN
    return Axis(low, high, start, end, is_log=True)


def round_ticks(low: float, high: float, least: float = 0.0) -> list[float]:
    """About five round numbers from low to high, no closer than `least`."""
    step = max(_step(high - low), least)
    first = math.ceil(low / step - 1e-9)
    count = int((high - first * step) / step + 1e-9)
    return [(first + index) * step for index in range(count + 1)]


def _step(span: float) -> float:
    rough = span / 5
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * step for step in _STEPS if size * step >= rough * 0.999)
