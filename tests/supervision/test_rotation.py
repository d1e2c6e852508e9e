"""Whose turn it is when requests ask for several models."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from homespec.frames import EngineSettings, Generate, Sampling, TextPrompt
from homespec.supervision.job import Job
from homespec.supervision.plan import Plan
from homespec.supervision.rotation import LINGER_S, Turn, first_in_line

A, B, C = PLANS = tuple(Plan(EngineSettings(f"{name}.gguf", name)) for name in "abc")
LATER = 1000.0
_ids = itertools.count()


def job(plan: Plan, received_at: float) -> Job:
    made = Job(Generate(f"r{next(_ids)}", TextPrompt("a"), Sampling()), plan)
    made.received_at = received_at
    return made


def may_start(turn: Turn, waiting: Sequence[Job], now: float) -> list[Job]:
    last_call = turn.last_call(waiting, now)
    return [each for each in waiting if each.plan is turn.plan and each.received_at <= last_call]


def test_a_model_alone_keeps_its_turn() -> None:
    waiting = [job(A, 1), job(A, 2)]
    assert may_start(Turn(A, 0, turn_s=10), waiting, LATER) == waiting
    assert Turn(A, 0, turn_s=10).successor([], LATER, num_running=0) is None


def test_within_its_turn_later_requests_go_ahead_of_other_models() -> None:
    first, second = job(B, 1), job(A, 2)
    turn = Turn(A, 0, turn_s=10)
    assert may_start(turn, [first, second], 9) == [second]
    assert turn.successor([first, second], 9, num_running=0) is None


def test_after_its_turn_only_what_came_before_the_others_still_starts() -> None:
    early, other, late = job(A, 1), job(B, 2), job(A, 3)
    turn = Turn(A, 0, turn_s=10)
    assert may_start(turn, [early, other, late], 11) == [early]
    assert turn.successor([early, other, late], 11, num_running=0) is None
    assert turn.successor([other, late], 11, num_running=1) is None  # its answers end first
    assert turn.successor([other, late], 11, num_running=0) is B


def test_a_turn_without_requests_ends_early_but_not_at_once() -> None:
    turn = Turn(A, 0, turn_s=10)
    assert turn.successor([job(B, 1)], LINGER_S / 2, num_running=0) is None
    assert turn.successor([job(B, 1)], LINGER_S, num_running=0) is B


def test_the_one_that_has_waited_longest_is_next() -> None:
    assert first_in_line([job(C, 3), job(B, 2), job(A, 4)]) is B
    assert first_in_line([]) is None


@given(
    arrivals=st.lists(st.tuples(st.sampled_from(PLANS), st.integers(0, 300)), max_size=40),
    turn_s=st.integers(0, 20),
    work_s=st.integers(1, 5),
    load_s=st.integers(1, 5),
)
def test_nobody_starves_and_loads_are_grouped(
    arrivals: list[tuple[Plan, int]], turn_s: int, work_s: int, load_s: int
) -> None:
    """One slot, a clock in whole seconds: a request waits for what came before it, and for one turn of each model."""
    coming = [job(plan, at) for plan, at in sorted(arrivals, key=lambda pair: pair[1])]
    waiting: list[Job] = []
    turn, now, started = Turn(A, 0, turn_s), 0, {}
    while coming or waiting:
        while coming and coming[0].received_at <= now:
            waiting.append(coming.pop(0))
        ready = may_start(turn, waiting, now)
        if ready:
            waiting.remove(ready[0])
            started[ready[0]] = now
            now += work_s
        elif (plan := turn.successor(waiting, now, num_running=0)) is not None:
            assert plan is not turn.plan
            now += load_s
            turn = Turn(plan, now, turn_s)
        else:
            now += 1
        assert now < 100_000
    for each, at in started.items():
        before = sum(other.received_at <= each.received_at for other in started)
        turns = before + len(PLANS)
        assert at - each.received_at <= turns * (turn_s + 2 * work_s + load_s + 1)
