"""When the drafter goes and when it comes back, for any course of readings."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from homespec.headroom.marks import Marks
from homespec.headroom.policy import SHORTEST_PAUSE, Change, Observation, Policy, PoolLevel, State, pause_s, why_out
from homespec.status import Cause, Watch
from homespec.units import MIB

MARKS = Marks(reserve_bytes=400 * MIB, low_bytes=200 * MIB, high_bytes=400 * MIB)
HOLD_S = 30.0
POLICY = Policy(HOLD_S)


def host(free_mib: float | None, drafter_mib: float | None = 100) -> PoolLevel:
    return PoolLevel("host", _bytes(free_mib), MARKS, _bytes(drafter_mib))


def seen(free_mib: float | None, **fields: object) -> Observation:
    return Observation((host(free_mib),), **fields)  # type: ignore[arg-type]


def gone(free_mib: float | None, **fields: object) -> Observation:
    """The drafter is unloaded."""
    return seen(free_mib, is_loaded=False, **fields)


def _bytes(mib: float | None) -> int | None:
    return None if mib is None else int(mib * MIB)


def cause_of(state: State, observation: Observation, now_s: float = 0.0, **fields: bool) -> Cause | None:
    change = POLICY.judge(state, observation, now_s, **fields)[1]
    return change.cause if change else None


WITHDRAWN, _ = POLICY.judge(State(), seen(100), 0.0)


def test_below_the_low_mark_it_goes_at_once_with_the_numbers() -> None:
    state, change = POLICY.judge(State(), seen(150), 7.0)
    assert state.watch is Watch.WITHDRAWN
    assert change == Change(Cause.LOW_MEMORY, "withdrawn: host has 150.0 MiB free, under the low mark of 200.0 MiB")


def test_between_the_marks_everything_stays_as_it_is() -> None:
    assert POLICY.judge(State(), seen(300), 0.0) == (State(), None)
    state = WITHDRAWN
    for now_s in range(0, 1000, 10):
        state, change = POLICY.judge(state, gone(450), float(now_s))
        assert change is None  # 350 would be left beside the drafter's 100


def test_it_comes_back_after_the_hold_with_room_for_itself() -> None:
    state, change = POLICY.judge(WITHDRAWN, gone(600), 100.0)
    assert change is None
    state, change = POLICY.judge(state, gone(600), 100.0 + HOLD_S - 0.1)
    assert change is None
    state, change = POLICY.judge(state, gone(600), 100.0 + HOLD_S)
    assert state.watch is Watch.ADMITTED
    assert change == Change(Cause.RECOVERED, "readmitted: host has 600.0 MiB free, high mark 400.0 MiB; calm for 30.0s")


def test_what_was_refused_is_let_in_by_the_same_rules_under_a_name_of_its_own() -> None:
    refused = State(Watch.REFUSED)
    assert cause_of(refused, gone(450), 0.0) is None
    state, change = POLICY.judge(refused, gone(600), 0.0)
    assert change is None
    assert cause_of(refused, gone(600), 0.0, asked=True) is Cause.ASKED
    state, change = POLICY.judge(state, gone(600), HOLD_S)
    assert change == Change(Cause.FITS, "admitted: host has 600.0 MiB free, high mark 400.0 MiB; calm for 30.0s")


@given(st.floats(0, 10_000), st.floats(0, 10_000))
def test_the_less_is_left_above_the_low_mark_the_sooner_the_next_look(free: float, other: float) -> None:
    least, most = sorted((free, other))
    assert pause_s(0.2, State(), seen(least)) <= pause_s(0.2, State(), seen(most)) <= 0.2
    assert pause_s(0.2, State(), seen(least)) >= 0.2 * SHORTEST_PAUSE
    assert pause_s(0.2, State(Watch.WITHDRAWN), seen(least)) == 0.2


@given(st.floats(50, 4000), st.floats(0, 0.2))
def test_a_steady_eater_is_seen_close_to_the_mark(mib_per_s: float, offset_s: float) -> None:
    """However fast it takes 2 GiB, it is seen before it has gone on for more than an eighth of the usual pause."""
    now_s, free = offset_s, 2200.0 - offset_s * mib_per_s
    while POLICY.judge(State(), seen(free), now_s)[1] is None:
        pause = pause_s(0.2, State(), seen(free))
        now_s, free = now_s + pause, free - pause * mib_per_s
    below_s = (200.0 - free) / mib_per_s
    # Taking more than the high mark in one pause, it can be past the zone in which looks come sooner.
    assert below_s <= (0.2 * SHORTEST_PAUSE if mib_per_s <= 2000 else 0.2) + 1e-9


def test_where_nothing_is_known_the_pause_is_the_usual_one() -> None:
    assert pause_s(0.2, State(), seen(None)) == 0.2
    assert pause_s(0.2, State(), Observation((host(250, drafter_mib=0),))) == 0.2


def test_a_relapse_begins_the_hold_anew() -> None:
    state, _ = POLICY.judge(WITHDRAWN, gone(600), 0.0)
    state, _ = POLICY.judge(state, gone(450), HOLD_S - 1)
    state, change = POLICY.judge(state, gone(600), HOLD_S)
    assert change is None
    assert cause_of(state, gone(600), 2 * HOLD_S) is Cause.RECOVERED


def test_asking_by_name_skips_the_hold_and_not_the_pressure() -> None:
    assert cause_of(WITHDRAWN, gone(600), asked=True) is Cause.ASKED
    assert cause_of(WITHDRAWN, gone(450), asked=True) is None
    assert why_out(WITHDRAWN, gone(450)) == (
        "host has 350.0 MiB free beside the drafter's 100.0 MiB, under the high mark of 400.0 MiB"
    )


def test_an_unknown_value_withdraws_nothing() -> None:
    assert cause_of(State(), seen(None)) is None
    assert cause_of(State(peak_share=1.0), seen(None, resident_share=None, major_faults_per_s=900.0)) is None
    assert cause_of(State(peak_share=1.0), seen(None, resident_share=0.1, major_faults_per_s=None)) is None


def test_a_pool_that_was_low_must_be_known_to_have_recovered() -> None:
    state, change = POLICY.judge(WITHDRAWN, gone(None), 1000.0)
    assert change is None
    assert why_out(state, gone(None)) == "it is not known what host has free"


def test_only_pools_in_which_the_drafter_holds_memory_count() -> None:
    card = PoolLevel("CUDA0", 50 * MIB, MARKS, 0)
    observation = Observation((host(900), card))
    assert cause_of(State(), observation) is None
    assert cause_of(State(), Observation((host(900), replace(card, drafter_bytes=1)))) is Cause.LOW_MEMORY
    assert cause_of(State(), Observation((host(900), replace(card, drafter_bytes=None)))) is Cause.LOW_MEMORY


def test_a_stall_counts_unless_it_is_somebody_elses() -> None:
    assert cause_of(State(), seen(500, stall_share=0.2)) is Cause.STALLED
    assert cause_of(State(), seen(None, stall_share=0.2)) is Cause.STALLED
    assert cause_of(State(), seen(500, stall_share=0.05)) is None
    assert cause_of(State(), seen(9000, stall_share=0.9)) is None
    assert cause_of(State(), seen(9000, stall_share=0.9, stall_is_own=True)) is Cause.STALLED


def test_eviction_needs_a_shrinking_file_and_pages_read_back() -> None:
    warm, _ = POLICY.judge(State(), seen(900, resident_share=0.98, major_faults_per_s=0.0), 0.0)
    assert cause_of(warm, seen(900, resident_share=0.80, major_faults_per_s=0.0)) is None
    assert cause_of(warm, seen(900, resident_share=0.97, major_faults_per_s=900.0)) is None
    state, change = POLICY.judge(warm, seen(900, resident_share=0.80, major_faults_per_s=900.0), 1.0)
    assert change == Change(
        Cause.EVICTED, "withdrawn: 18 % of the target's file has left memory and 900 pages/s are read back"
    )
    assert cause_of(state, gone(900, resident_share=0.80, major_faults_per_s=900.0), 1e6) is None
    calm, _ = POLICY.judge(state, gone(900, resident_share=0.80, major_faults_per_s=0.0), 1e6)
    assert cause_of(calm, gone(900, resident_share=0.80, major_faults_per_s=0.0), 2e6) is Cause.RECOVERED


levels = st.one_of(st.none(), st.floats(0, 1000))
shares = st.one_of(st.none(), st.floats(0, 1))
observations = st.builds(
    lambda free, drafter, loaded, stall, own, share, faults: Observation(
        (host(free, drafter),), loaded, stall, own, share, faults
    ),
    levels,
    levels,
    st.booleans(),
    shares,
    st.booleans(),
    shares,
    st.one_of(st.none(), st.floats(0, 5000)),
)
courses = st.lists(st.tuples(st.floats(0.01, 20), observations, st.booleans()), max_size=30)


@given(courses)
def test_transitions_alternate_and_a_return_has_waited_for_an_unbroken_calm(
    course: list[tuple[float, Observation, bool]],
) -> None:
    state, now_s, obstacle_s, withdrawn = State(), 0.0, 0.0, False
    for step_s, observation, asked in course:
        now_s += step_s
        before = state
        state, change = POLICY.judge(state, observation, now_s, asked=asked)
        if withdrawn and why_out(before, observation):
            obstacle_s = now_s
        if change is None:
            assert state.watch is before.watch
            continue
        if withdrawn:
            assert change.cause in (Cause.RECOVERED, Cause.ASKED)
            assert (change.cause is Cause.ASKED) == asked
            assert asked or now_s - obstacle_s >= HOLD_S
            [level] = observation.pools
            held = 0 if observation.is_loaded else level.drafter_bytes or 0
            assert not level.drafter_bytes or level.free_bytes is None or level.free_bytes - held >= MARKS.high_bytes
        else:
            obstacle_s = now_s
        withdrawn = not withdrawn
        assert state.watch is (Watch.WITHDRAWN if withdrawn else Watch.ADMITTED)
        assert change.reason


@given(courses, st.floats(0, 199))
def test_below_the_low_mark_no_drafter_stays(course: list[tuple[float, Observation, bool]], free_mib: float) -> None:
    state, now_s = State(), 0.0
    for step_s, observation, asked in course:
        now_s += step_s
        state, _ = POLICY.judge(state, observation, now_s, asked=asked)
    state, _ = POLICY.judge(state, seen(free_mib), now_s + 1)
    assert state.watch is Watch.WITHDRAWN


@given(st.floats(400, 1000), st.floats(0, 600))
def test_a_drafter_that_comes_back_does_not_push_itself_out(free_mib: float, drafter_mib: float) -> None:
    """After it is loaded, what is left is above the low mark."""
    level = host(free_mib, drafter_mib)
    calm = replace(WITHDRAWN, calm_since_s=0.0)
    state, change = POLICY.judge(calm, Observation((level,), is_loaded=False), HOLD_S)
    if change is not None:
        after = Observation((host(free_mib - drafter_mib, drafter_mib),), is_loaded=True)
        assert POLICY.judge(state, after, HOLD_S + 1)[1] is None
