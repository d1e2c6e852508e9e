"""What a pass costs: the measured table as it is, and what the clock makes of it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.control.cost import CostModel, CostTable, fastest, filled
from tests.engine.control.simulator import Q4_0, Q4_1, Machine

ROWS = (1, 2, 4, 8, 16)
times = st.floats(0.001, 10.0)


def table_of(seconds: dict[int, float], *more: tuple[int, dict[int, float]]) -> CostTable:
    rows = tuple(sorted(seconds))
    lines = [tuple(line[row] for row in rows) for line in (seconds, *(line for _, line in more))]
    return CostTable(rows, (32, *(context for context, _ in more)), tuple(lines))


@given(st.lists(times, min_size=5, max_size=5), st.lists(times, min_size=5, max_size=5), st.integers(0, 4000))
def test_a_longer_context_never_costs_less(short: list[float], long: list[float], context: int) -> None:
    table = CostTable(ROWS, (32, 1024), (tuple(short), tuple(long)))
    cost = CostModel(table, max_rows=20)
    assert (cost.verify_s(context + 64) >= cost.verify_s(context) - 1e-12).all()


@given(st.lists(times, min_size=5, max_size=5))
def test_the_table_is_met_at_its_knots_and_linear_between(seconds: list[float]) -> None:
    cost = CostModel(CostTable(ROWS, (32,), (tuple(seconds),)), max_rows=40)
    verify_s = cost.verify_s(500)
    assert verify_s[list(ROWS)] == pytest.approx(seconds)
    assert verify_s[6] == pytest.approx((seconds[2] + seconds[3]) / 2)
    assert verify_s[0] == 0
    assert verify_s[40] >= verify_s[16] - 1e-12


def test_beyond_the_longest_context_the_slope_goes_on() -> None:
    cost = CostModel(table_of({1: 1.0, 8: 4.0}, (1032, {1: 2.0, 8: 8.0})), max_rows=8)
    assert cost.verify_s(2032)[1] == pytest.approx(3.0)
    assert cost.verify_s(532)[8] == pytest.approx(6.0)


def test_a_slower_machine_is_followed_and_a_single_slow_round_is_not() -> None:
    random = np.random.default_rng(1)
    cost = Machine(Q4_1).cost_model()
    for _ in range(20):
        cost.observe_verify(1, 0, 1.0)
    cost.observe_verify(1, 0, 20.0)
    assert cost.verify_s(0)[1] < 1.15
    for _ in range(60):
        for rows in (1, 4):
            cost.observe_verify(rows, 0, 1.5 * Machine(Q4_1).verify(rows) * float(np.exp(random.normal(0, 0.05))))
    assert cost.verify_s(0)[1] == pytest.approx(1.5, rel=0.06)
    assert cost.verify_s(0)[8] == pytest.approx(1.5 * 4.26, rel=0.12)


def test_a_plain_round_now_and_then_keeps_the_comparison_true() -> None:
    """Only eight rows are seen, and they cost half as much again as the table says: the machine, or the rows?"""
    cost = Machine(Q4_1).cost_model()
    for now in range(1, 600):
        cost.observe_verify(8, 0, 1.5 * 4.26)
        if now % 128 == 0:
            cost.observe_verify(1, 0, 1.0)
    verify_s = cost.verify_s(0)
    assert verify_s[8] == pytest.approx(1.5 * 4.26, rel=0.03)
    assert verify_s[8] / verify_s[1] == pytest.approx(1.5 * 4.26, rel=0.12)


def test_the_copy_of_a_state_is_followed_and_one_slow_copy_is_not() -> None:
    cost = CostModel(CostTable((1, 2), (0,), ((1.0, 1.5),), rewind_s=0.5), max_rows=4)
    cost.observe_rewind(1, 100.0)
    assert cost.rewind_s < 0.7
    for _ in range(60):
        cost.observe_rewind(2, 2.0)
    assert cost.rewind_s == pytest.approx(1.0, rel=0.01)


def test_three_rows_are_filled_up_to_four_where_four_cost_less() -> None:
    verify_s = Machine(Q4_0).cost_model().verify_s(0)
    seconds, rows = filled(verify_s)
    assert (rows[3], seconds[3]) == (4, pytest.approx(1.57))
    assert (rows[7], rows[4], rows[1]) == (8, 4, 1)


@given(st.lists(times, min_size=3, max_size=20), st.integers(1, 2))
def test_filling_up_takes_the_cheapest_of_the_next_rows_and_never_decodes_less(
    seconds: list[float], least: int
) -> None:
    verify_s = np.asarray([0.0, *seconds])
    best, rows = filled(verify_s, least)
    needed = np.arange(len(verify_s))
    assert (rows >= needed).all()
    assert best[2:].tolist() == [min(seconds[row : row + 4]) for row in range(1, len(seconds))]
    assert best[1:] == pytest.approx(verify_s[rows[1:]])
    assert best[0] == rows[0] == 0
    assert rows[1] == least


def test_without_a_table_the_first_passes_give_the_scale() -> None:
    cost = CostModel(None, max_rows=20)
    for seconds in (0.010, 0.011, 0.030):
        assert not cost.is_known
        cost.observe_verify(1, 5, seconds)
    assert cost.is_known
    assert not cost.is_measured
    assert cost.verify_s(0)[1] == pytest.approx(0.011)
    assert cost.verify_s(0)[8] > 3 * 0.011


def test_an_assumed_table_gives_way_quickly() -> None:
    cost = CostModel(None, max_rows=20)
    for _ in range(3):
        cost.observe_verify(1, 5, 0.010)
    for _ in range(8):
        cost.observe_verify(8, 5, 0.015)
        cost.observe_verify(1, 5, 0.010)
    assert cost.verify_s(0)[8] == pytest.approx(0.015, rel=0.1)
    assert cost.verify_s(0)[1] == pytest.approx(0.010, rel=0.1)


def test_a_drafter_that_several_share_takes_longer_until_the_clock_says_otherwise() -> None:
    cost = Machine(Q4_1, {"draft": 0.1}).cost_model()
    alone, shared = cost.draft_s("draft", 1, 0), cost.draft_s("draft", 4, 0)
    assert alone[8] == pytest.approx(0.8)
    assert shared[8] == pytest.approx(0.8 * 2.45)
    for _ in range(40):
        cost.observe_draft("draft", 4, 8, 0, 0.9)
    assert cost.draft_s("draft", 4, 0)[8] == pytest.approx(0.9, rel=0.05)


def test_a_drafter_that_nobody_measured_is_not_free() -> None:
    assert Machine(Q4_1).cost_model().draft_s("new", 1, 0)[3] == pytest.approx(1.0)


@given(*[st.lists(st.floats(1e-4, 10.0), min_size=3, max_size=3)] * 2)
def test_of_two_measurements_the_faster_times_count(left: list[float], right: list[float]) -> None:
    tables = [CostTable((1, 2, 4), (32,), (tuple(line),), rewind_s=line[0]) for line in (left, right)]
    merged = fastest(*tables)
    assert merged.seconds[0] == tuple(map(min, left, right))
    assert merged.rewind_s == min(left[0], right[0])
    assert merged.num_runs == 2
    assert fastest(merged, merged).seconds == merged.seconds


def test_a_measurement_that_ran_out_of_time_gives_way_to_a_whole_one() -> None:
    short = CostTable((1, 2), (32,), ((0.01, 0.02),))
    whole = CostTable((1, 2), (32, 1024), ((0.03, 0.04), (0.05, 0.06)))
    more_rows = CostTable((1, 2, 4), (32,), ((0.03, 0.04, 0.05),))
    for left, right, expected in ((short, whole, whole), (whole, short, whole), (more_rows, short, more_rows)):
        merged = fastest(left, right)
        assert (merged.seconds, merged.num_runs) == (expected.seconds, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": ()},
        {"rows": (2, 4, 8)},
        {"rows": (1, 8, 4)},
        {"rows": (1, 4)},
        {"contexts": (32, 32)},
        {"contexts": (32,)},
        {"contexts": (), "seconds": ()},
        {"seconds": ((0.0, 0.0, 0.0), (1.0, 2.0, 3.0))},
        {"seconds": ((1.0, math.nan, 3.0), (1.0, 2.0, 3.0))},
        {"seconds": ((1.0, 2.0, math.inf), (1.0, 2.0, 3.0))},
        {"seconds": ((1.0, -2.0, 3.0), (1.0, 2.0, 3.0))},
        {"rewind_s": -1.0},
        {"rewind_s": math.nan},
    ],
)
def test_a_table_that_nobody_can_have_measured_is_told(change: dict[str, Any]) -> None:
    sound = CostTable((1, 4, 8), (32, 512), ((1.0, 2.0, 3.0), (3.0, 2.0, 1.0)))
    assert sound.is_sound
    assert not replace(sound, **change).is_sound
