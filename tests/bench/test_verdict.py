"""The statistics on simulated noise: what a verdict is worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.bench.interval import MIN_VALUES, Interval, mean_interval, spread
from homespec.bench.verdict import ROOM, TOLERANCE, Verdict, category_level, judge

NUM_PROMPTS = 12
LEVEL = 0.95


def noise(generator: np.random.Generator, size: int, sd: float = 0.06) -> list[float]:
    """Log ratios of two equal sides: timing noise, and now and then something else on the machine."""
    quiet = generator.normal(0, sd, size)
    disturbed = generator.random(size) < 0.05
    return list(quiet + disturbed * generator.normal(0, 4 * sd, size))


def test_two_equal_sides_look_different_no_more_often_than_the_level_says() -> None:
    generator = np.random.default_rng(7)
    num_runs = 300
    missed = 0
    for _ in range(num_runs):
        interval = mean_interval([noise(generator, NUM_PROMPTS)], LEVEL)
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        missed += not interval.low <= 0 <= interval.high
    # Binomial with p = 0.05: 15 expected, standard deviation 3.8; the tails make the interval a little careful.
    assert 3 <= missed <= 26


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.15, Verdict.FASTER), (0.87, Verdict.SLOWER), (1, Verdict.NO_DIFFERENCE)]
)
def test_runs_of_the_same_comparison_agree(factor: float, verdict: Verdict) -> None:
    """At the level of one category among fifteen: prompts differ in what they gain, and each run has its own noise."""
    generator = np.random.default_rng(3)
    gains = math.log(factor) + (generator.normal(0, 0.02, NUM_PROMPTS) if factor != 1 else 0)
    verdicts = [
        judge(mean_interval([list(gains + np.asarray(noise(generator, NUM_PROMPTS, 0.03)))], category_level(15)))
        for _ in range(50)
    ]
    assert verdicts.count(verdict) >= 45


def test_fifteen_categories_of_equal_sides_are_rarely_called_different() -> None:
    generator = np.random.default_rng(11)
    level = category_level(15)
    alarms = 0
    for _ in range(20):
        verdicts = [judge(mean_interval([noise(generator, NUM_PROMPTS)], level)) for _ in range(15)]
        alarms += any(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    assert alarms <= 3


def test_a_difference_between_categories_is_no_uncertainty() -> None:
    generator = np.random.default_rng(1)
    copying, prose = list(1 + generator.normal(0, 0.02, 12)), list(generator.normal(0, 0.02, 12))
    apart = mean_interval([copying, prose], LEVEL)
    pooled = mean_interval([copying + prose], LEVEL)
    assert apart is not None
    assert pooled is not None
    assert apart.mean == pytest.approx(pooled.mean)
    assert width(apart) < 0.1 * width(pooled)


def width(interval: Interval) -> float:
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


def test_a_stratum_of_one_is_pooled() -> None:
    values = [0.1, 0.3, 0.2, 0.15, 0.25, 0.5]
    assert mean_interval([values[:5], values[5:]], LEVEL) == mean_interval([values], LEVEL)


@given(st.lists(st.floats(-2, 2), min_size=MIN_VALUES, max_size=20), st.floats(0.5, 0.99))
def test_an_interval_holds_the_mean_or_says_that_it_does_not_know(values: list[float], level: float) -> None:
    interval = mean_interval([values], level)
    assert interval == mean_interval([values], level)
    assert interval is not None
    assert interval.mean == pytest.approx(sum(values) / len(values), abs=1e-9)
    if interval.low is not None and interval.high is not None:
        assert interval.low <= interval.high


def test_values_without_noise_have_an_interval_without_width() -> None:
    assert mean_interval([[0.5] * 6], LEVEL) == Interval(0.5, 0.5, 0.5, LEVEL)


def test_a_few_values_give_no_interval_and_none_give_nothing() -> None:
    assert mean_interval([[0.5] * (MIN_VALUES - 1)], LEVEL) == Interval(0.5, None, None, LEVEL)
    assert mean_interval([], LEVEL) is None
    assert mean_interval([[]], LEVEL) is None
    assert spread([]) is None


def judged(mean: float, low: float | None, high: float | None) -> Verdict:
    return judge(Interval(mean, low, high, LEVEL))


def test_the_rule() -> None:
    just_enough, too_little = math.log(1 + TOLERANCE) + 1e-9, math.log(1 + TOLERANCE) - 1e-9
    assert judged(just_enough, 0.01, 0.1) is Verdict.FASTER
    assert judged(too_little, 0.01, 0.09) is Verdict.NO_DIFFERENCE
    assert judged(math.log(1 - TOLERANCE) - 1e-9, -0.1, -0.01) is Verdict.SLOWER
    assert judged(math.log(1 - TOLERANCE) + 1e-9, -0.1, -0.01) is Verdict.NO_DIFFERENCE
    assert judged(0.0, math.log1p(-ROOM), math.log1p(ROOM)) is Verdict.NO_DIFFERENCE
    for low, high in ((-0.01, 1), (-1, 0.01), (-0.2, 0.2), (math.log1p(-ROOM) - 1e-9, 0.01)):
        assert judged((low + high) / 2, low, high) is Verdict.CANNOT_TELL
    assert judged(0.5, None, None) is Verdict.TOO_FEW
    assert judge(None) is Verdict.TOO_FEW


def test_categories_share_the_level() -> None:
    assert category_level(1) == pytest.approx(0.95)
    assert category_level(10) == pytest.approx(0.995)
    assert category_level(0) == pytest.approx(0.95)
