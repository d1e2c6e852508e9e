"""Counts by confidence: what was seen, beside what was expected."""

from __future__ import annotations

import numpy as np
import pytest

from homespec.engine.control.acceptance import Acceptance
from homespec.engine.control.reliability import Count, reliability
from homespec.status import ReliabilityBin


def test_bins_have_limits_and_shares_and_empty_ones_are_left_out() -> None:
    counts = [Count(1, 0, 0.25), Count(), Count(4, 3, 2.0)]
    low, high = reliability(counts, (0.5, 0.9))
    assert low == ReliabilityBin(0.0, 0.5, 1, 0.0, 0.25)
    assert high == ReliabilityBin(0.9, 1.0, 4, 0.75, 0.5)
    assert reliability(counts[2:], None) == (ReliabilityBin(None, None, 4, 0.75, 0.5),)
    assert reliability([Count()], None) == ()


def test_what_is_expected_of_a_boaster_comes_down_to_what_is_seen() -> None:
    acceptance = Acceptance(0.5)
    random = np.random.default_rng(3)
    for now in range(600):
        acceptance.learn(f"s{now // 20}", [0.99, 0.3], int(random.random() < 0.5))
    unsure, sure = acceptance.reliability()
    assert (unsure.low, unsure.high, sure.low, sure.high) == (0.25, 0.4, 0.98, 1.0)
    assert sure.count == 600
    assert 240 < unsure.count < 360
    assert 0.44 < sure.observed < 0.56
    assert unsure.observed == 0
    assert sure.expected == pytest.approx(sure.observed, abs=0.06)


def test_without_confidences_there_is_one_bin_and_tokens_count_once() -> None:
    acceptance = Acceptance(0.5)
    for _ in range(16):
        acceptance.learn("s", [None, None], 1, also_blind=True)
    [only] = acceptance.reliability()
    assert (only.low, only.high, only.count, only.observed) == (None, None, 32, 0.5)
    for _ in range(8):
        acceptance.learn("s", [0.6], 1, also_blind=True)
    [known] = acceptance.reliability()
    assert (known.low, known.count) == (0.55, 8)
