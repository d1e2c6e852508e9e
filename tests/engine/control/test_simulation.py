"""The controller on made-up machines: never far from the best fixed D, and never slower than not drafting."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from statistics import median

import numpy as np
import pytest

from homespec.engine.control.controller import Controller
from homespec.engine.control.plain_times import PLAIN_EVERY
from tests.engine.control.simulator import (
    MACHINES,
    Machine,
    Rate,
    Run,
    best_speed,
    expected_speed,
    good_depths,
    replay,
)

ROUNDS = 500
machines = pytest.mark.parametrize("name", list(MACHINES))


def steady(rate: float) -> Rate:
    return lambda _now: rate


def switching(*rates: float, every: int) -> Rate:
    return lambda now: rates[now // every % len(rates)]


def lost_to_probes(run: Run, machine: Machine) -> float:
    """Share of all time by which the rounds of a losing drafter took longer than plain decoding of their tokens."""
    lost = 0.0
    for [record], seconds in zip(run.rounds, run.seconds, strict=True):
        if record.decision.num_draft_tokens:
            lost += seconds - record.num_tokens * machine.verify(1)
    return lost / sum(run.seconds)


@machines
@pytest.mark.parametrize("rate", [0.05, 0.4, 0.6, 0.75, 0.9, 0.98])
def test_a_steady_text_costs_at_most_5_percent_against_the_best_fixed_d(name: str, rate: float) -> None:
    machine = Machine(MACHINES[name], noise=0.08)
    run = replay(machine, [{"free": steady(rate)}], 2 * ROUNDS)
    noise = sum(run.seconds) / sum(machine.verify(1) for _ in run.seconds)
    plain = replay(machine, [{}], 2 * ROUNDS)
    slow = sum(plain.seconds) / len(plain.seconds)  # noise makes every round longer on average, the best one too
    assert noise > 0
    assert run.speed * slow >= 0.95 * best_speed(machine, rate)


@machines
@pytest.mark.parametrize(("rho", "rate"), [(0.05, 0.6), (0.05, 0.9), (0.2, 0.9), (0.2, 0.97)])
def test_so_does_a_drafter_that_takes_time(name: str, rho: float, rate: float) -> None:
    machine = Machine(MACHINES[name], {"draft": rho}, noise=0.0)
    run = replay(machine, [{"draft": steady(rate)}], 3 * ROUNDS)
    spikes = 1.016
    assert run.speed * spikes >= 0.95 * best_speed(machine, rate, drafter="draft")


@machines
@pytest.mark.parametrize(("rewind", "rate"), [(0.5, 0.9), (2.0, 0.98), (2.0, 0.5), (20.0, 0.98)])
def test_so_does_a_target_whose_state_must_be_copied(name: str, rewind: float, rate: float) -> None:
    machine = Machine(MACHINES[name], rewind=rewind, noise=0.0)
    run = replay(machine, [{"free": steady(rate)}], 2 * ROUNDS)
    spikes = 1.016
    assert run.speed * spikes >= 0.95 * best_speed(machine, rate)


@machines
@pytest.mark.parametrize(("before", "after"), [(0.95, 0.6), (0.6, 0.95), (0.2, 0.95), (0.95, 0.5)])
def test_after_a_switch_d_is_right_within_16_rounds(name: str, before: float, after: float) -> None:
    machine = Machine(MACHINES[name])
    every = 100
    run = replay(machine, [{"free": switching(before, after, every=every)}], 8 * every)
    good = good_depths(machine, after)
    late = [depth for start in range(every + 16, 8 * every, 2 * every) for depth in run.depths(start, start + 24)]
    assert min(abs(median(late) - depth) for depth in good) <= 1


@machines
def test_a_text_that_turns_bad_is_left_alone_within_8_rounds(name: str) -> None:
    machine = Machine(MACHINES[name])
    every = 100
    run = replay(machine, [{"free": switching(0.95, 0.05, every=every)}], 10 * every)
    late = [depth for start in range(every + 8, 10 * every, 2 * every) for depth in run.depths(start, start + 40)]
    assert sum(depth > 0 for depth in late) <= 0.1 * len(late)


@machines
@pytest.mark.parametrize("rho", [0.05, 0.35, 1.0])
def test_a_losing_drafter_costs_no_more_than_its_probes(name: str, rho: float) -> None:
    machine = Machine(MACHINES[name], {"draft": rho})
    run = replay(machine, [{"draft": steady(0.02)}], 4 * ROUNDS)
    assert lost_to_probes(run, machine) <= 0.02
    assert run.against_plain >= 0.97 / 1.03  # spikes and noise are in the time, not in what plain decoding would take
    assert run.depths(ROUNDS)[-400:].count(0) > 380


@pytest.mark.parametrize(("name", "rate"), [("q4_1", 0.7), ("q4_1", 0.8), ("f16", 0.6)])
def test_nor_does_one_that_nearly_pays(name: str, rate: float) -> None:
    """It loses so little that each of its probes can be afforded, and all of them could not."""
    machine = Machine(MACHINES[name], {"draft": 0.3}, noise=0.0)
    assert best_speed(machine, rate, drafter="draft") == pytest.approx(1.0)
    run = replay(machine, [{"draft": steady(rate)}], 8 * ROUNDS)
    assert lost_to_probes(run, machine) <= 0.02


@machines
@pytest.mark.parametrize("at", [0, 60])
def test_a_machine_that_slept_in_a_round_goes_on_as_before(name: str, at: int) -> None:
    """Of a probe, too: an hour is no loss that a drafter has to pay back."""
    machine = Machine(MACHINES[name], {"draft": 0.05})
    texts: list[Mapping[str, Rate]] = [{"draft": lambda now: 0.02 if now < 400 else 0.97}]
    probes = [now for now, depth in enumerate(replay(machine, texts, 400).depths()) if depth]
    for stalled in (at, probes[0], probes[-1]):
        controller = Controller(machine.cost_model())
        run = replay(machine, texts, 5000, controller=controller, stalls={stalled: 360_000.0})
        assert median(run.depths(4000)) >= 3
        assert controller.tally.measured_speedup is not None
        assert controller.tally.measured_speedup >= 1.2
    asleep = replay(machine, [{"free": steady(0.9)}], ROUNDS, stalls={at: 360_000.0})
    awake = replay(machine, [{"free": steady(0.9)}], ROUNDS)
    assert asleep.speed >= 0.95 * awake.speed


def test_a_drafter_that_never_paid_is_found_out_when_it_does() -> None:
    machine = Machine(MACHINES["f16"], {"draft": 0.05})
    run = replay(machine, [{"draft": lambda now: 0.05 if now < 400 else 0.97}], 3 * ROUNDS)
    assert median(run.depths(1100)) >= 8


@machines
def test_nothing_is_gained_by_being_wrong_whenever_it_counts(name: str) -> None:
    """The free draft is right when it is not used, and wrong when it is: expectation alone would lose for ever."""
    machine = Machine(MACHINES[name], noise=0.0)
    run = replay(machine, [{"free": steady(1.0)}], 4 * ROUNDS, adversary=True)
    assert run.against_plain * 1.016 >= 0.93


@machines
def test_a_wrong_calibration_is_put_right_by_the_clock(name: str) -> None:
    """All but single rows were timed three times too cheap."""
    machine = Machine(MACHINES[name])
    cost = machine.cost_model(dict.fromkeys([row for row in machine.table if row > 1], 1 / 3))
    run = replay(machine, [{"free": steady(0.4)}], 2 * ROUNDS, controller=Controller(cost))
    best = best_speed(machine, 0.4)
    assert run.speed * 1.03 >= 0.9 * best
    assert expected_speed(machine, 0.4, round(median(run.depths(ROUNDS)))) >= 0.95 * best


@machines
def test_a_plain_speed_that_was_thought_far_too_low_is_put_right_soon(name: str) -> None:
    """Measuring it looks dear, and is not."""
    machine = Machine(MACHINES[name], noise=0.0)
    run = replay(machine, [{"free": steady(0.05)}], 2 * ROUNDS, controller=Controller(machine.cost_model({1: 100.0})))
    assert run.depths(ROUNDS).count(0) >= 0.9 * ROUNDS


@machines
def test_four_sequences_together_are_no_slower_than_plain_and_a_good_one_keeps_its_gain(name: str) -> None:
    machine = Machine(MACHINES[name])
    bad = replay(machine, [{"free": steady(0.05)} for _ in range(4)], ROUNDS)
    assert bad.against_plain * 1.03 >= 0.97
    mixed = replay(machine, [{"free": steady(rate)} for rate in (0.97, 0.05, 0.05, 0.05)], ROUNDS)
    assert mixed.against_plain * 1.03 >= 0.99


@machines
def test_of_two_drafters_the_better_one_is_used(name: str) -> None:
    machine = Machine(MACHINES[name], {"draft": 0.05})
    run = replay(machine, [{"free": steady(0.3), "draft": steady(0.93)}], 2 * ROUNDS)
    used = [records[0].decision.drafter for records in run.rounds[ROUNDS:]]
    assert used.count("draft") > used.count("free")
    other = replay(machine, [{"free": steady(0.95), "draft": steady(0.6)}], 2 * ROUNDS)
    used = [records[0].decision.drafter for records in other.rounds[ROUNDS:]]
    assert used.count("free") > 0.9 * len(used)


def test_the_plain_speed_is_measured_again_now_and_then() -> None:
    run = replay(Machine(MACHINES["f16"]), [{"free": steady(0.97)}], 5 * PLAIN_EVERY)
    plain = [now for now, depth in enumerate(run.depths()) if not depth]
    gaps = [right - left for left, right in zip(plain, [*plain[1:], len(run.rounds)], strict=True)]
    assert max(gaps) <= PLAIN_EVERY + 1
    assert len(plain) <= 0.05 * len(run.rounds)


def test_nor_is_that_put_off_for_good_when_probes_have_spent_all_there_is() -> None:
    machine = Machine(MACHINES["f16"], {"draft": 0.05})
    texts: list[Mapping[str, Rate]] = [{"draft": steady(0.02), "free": lambda now: 0.02 if now < 60 else 0.98}]
    probes = [
        now
        for now, [record] in enumerate(replay(machine, texts, 60).rounds)
        if record.decision.note == "a probe of a paused drafter"
    ]
    run = replay(machine, texts, 900, stalls={probes[-1]: 360_000.0})
    plain = [60, *(now for now, depth in enumerate(run.depths()) if now > 60 and not depth), 900]
    assert max(right - left for left, right in pairwise(plain)) <= 2 * PLAIN_EVERY


@machines
def test_what_is_predicted_comes_true(name: str) -> None:
    """As it is shown, at any time after the first hundred rounds."""
    errors = []
    for seed, rate in enumerate((0.5, 0.7, 0.85, 0.95) * 3):
        machine = Machine(MACHINES[name], noise=0.08)
        controller = Controller(machine.cost_model())
        for part in range(5):
            replay(machine, [{"free": steady(rate)}], ROUNDS // 5, controller=controller, seed=100 * seed + part)
            predicted, measured = controller.tally.predicted_speedup, controller.tally.measured_speedup
            assert predicted is not None
            assert measured is not None
            errors.append(abs(predicted / measured - 1))
    assert median(errors) <= 0.05
    assert np.quantile(errors, 0.95) <= 0.12
