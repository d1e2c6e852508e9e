"""Faster, slower, no difference, or nothing that can be told: the rule, as a function of an interval."""

from __future__ import annotations

import math
from enum import StrEnum

from homespec.bench.interval import Interval

TOLERANCE = 0.03
"""A change below this is none: the line of "never slower" is 0.97 of plain."""
ROOM = 0.1
"""An interval that reaches further than this from 1 leaves room for a difference that matters."""
CONFIDENCE = 0.95
"""Of the overall verdict, and of all categories together."""


class Verdict(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no difference"
    CANNOT_TELL = "cannot tell"
    TOO_FEW = "too few prompts"


def judge(log_ratio: Interval | None) -> Verdict:
    """A difference is one when it is larger than the tolerance and the interval leaves no room for none at all.

    There is none when the interval leaves no room for one that matters.

    log_ratio: of speeds, the side's to the baseline's.
    """
    if log_ratio is None or log_ratio.low is None or log_ratio.high is None:
        return Verdict.TOO_FEW
    if log_ratio.low > 0 and log_ratio.mean >= math.log1p(TOLERANCE):
        return Verdict.FASTER
    if log_ratio.high < 0 and log_ratio.mean <= math.log1p(-TOLERANCE):
        return Verdict.SLOWER
    if math.log1p(-ROOM) <= log_ratio.low and log_ratio.high <= math.log1p(ROOM):
        return Verdict.NO_DIFFERENCE
    return Verdict.CANNOT_TELL


def category_level(num_categories: int) -> float:
    """Level of each category's interval, so that all of them hold together with the confidence (Bonferroni).

    Without it one of fifteen categories of two equal sides would look different in every second run.
    """
    return 1 - (1 - CONFIDENCE) / max(num_categories, 1)
