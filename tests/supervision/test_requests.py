"""Requests between clients and engines that come and go, without a process."""

from __future__ import annotations

import itertools

import pytest

from homespec.errors import RequestError
from homespec.frames import (
    Answer,
    Cancel,
    Delta,
    EngineSettings,
    Finished,
    Frame,
    Generate,
    Refused,
    Sampling,
    TextPrompt,
    Tokenize,
    Tokens,
)
from homespec.status import DraftState, SpeculationReport, Timings
from homespec.supervision.job import Job
from homespec.supervision.plan import Plan
from homespec.supervision.requests import CANCELLED, Requests
from homespec.supervision.rotation import LINGER_S
from tests.kits.limits import limits

A, B = (Plan(EngineSettings(f"{name}.gguf", name)) for name in "ab")
_ids = itertools.count()


class FakeEngine:
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []

    def send(self, frame: Frame) -> None:
        self.frames.append(frame)

    @property
    def given(self) -> list[str]:
        return [frame.request_id for frame in self.frames if isinstance(frame, Generate | Tokenize)]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("requests", "job"):
        monkeypatch.setattr(f"homespec.supervision.{module}.time.monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def requests(clock: Clock) -> Requests:
    return Requests(limits(max_queue=3), slots=2)


def generate(requests: Requests, plan: Plan, client: str = "") -> Job:
    return requests.take(Generate(f"r{next(_ids)}", TextPrompt("a"), Sampling()), plan, client=client)


def ids(*jobs: Job) -> list[str]:
    return [job.id for job in jobs]


async def answers(job: Job, expected: type[Answer]) -> None:
    assert isinstance(await job.next(), expected)


def end(requests: Requests, job: Job) -> None:
    requests.answer(Tokens(job.id, []))


def test_an_engine_gets_what_it_has_slots_for(requests: Requests) -> None:
    jobs = [generate(requests, A) for _ in range(3)]
    engine = FakeEngine()
    requests.serve_from(engine, A)
    assert engine.given == ids(*jobs[:2])
    end(requests, jobs[0])
    assert engine.given == ids(*jobs)


def test_what_needs_no_slot_waits_for_the_right_model_only(requests: Requests) -> None:
    engine = FakeEngine()
    requests.serve_from(engine, A)
    jobs = [generate(requests, A), generate(requests, A)]
    here = requests.take(Tokenize("t1", "a"), A, client="")
    requests.take(Tokenize("t2", "a"), B, client="")
    assert engine.given == ids(*jobs, here)
    assert requests.num_waiting(B) == 1


def test_a_request_for_another_model_has_it_loaded_once_nothing_runs(requests: Requests, clock: Clock) -> None:
    first, second = FakeEngine(), FakeEngine()
    requests.serve_from(first, A)
    running = generate(requests, A)
    clock.now += LINGER_S
    other = generate(requests, B)
    clock.now += 1
    late = generate(requests, A)
    assert first.given == ids(running)
    assert requests.next_plan() is None
    end(requests, running)
    assert requests.next_plan() is B
    requests.hold()
    requests.serve_from(second, B)
    assert second.given == ids(other)
    clock.now += LINGER_S
    assert requests.next_plan() is None
    end(requests, other)
    assert requests.next_plan() is A
    assert requests.num_waiting(A) == 1
    requests.cancel(late)
    assert requests.next_plan() is None


async def test_lost_requests_are_sent_once_more_and_first(requests: Requests) -> None:
    first, second, third = FakeEngine(), FakeEngine(), FakeEngine()
    requests.serve_from(first, A)
    sent, silent = generate(requests, A), generate(requests, A)
    waiting = generate(requests, A)
    requests.answer(Delta(sent.id, "b", 1))
    requests.engine_gone("died", code="engine_died")
    await answers(sent, Delta)
    await answers(sent, Refused)
    requests.serve_from(second, A)
    assert second.given == ids(silent, waiting)
    requests.engine_gone("died", code="engine_died")
    requests.serve_from(third, A)
    await answers(silent, Refused)
    assert third.given == ids(waiting)


async def test_only_the_requests_of_a_model_that_does_not_load_fail(requests: Requests) -> None:
    one, other = generate(requests, A), generate(requests, B)
    error = RequestError("does not load", status=500).info
    requests.fail_all(error, A)
    assert await one.next() == Refused(one.id, error)
    assert requests.next_plan() is B
    requests.cancel(other)
    assert len(requests) == 0


def test_requests_move_with_their_plan(requests: Requests) -> None:
    job = generate(requests, A)
    requests.move(A, B)
    engine = FakeEngine()
    requests.serve_from(engine, B)
    assert engine.given == ids(job)


def test_the_limit_holds_for_all_models_together(requests: Requests) -> None:
    for plan in (A, B, A, B, A):
        generate(requests, plan)
    with pytest.raises(RequestError, match="5 requests are in flight"):
        generate(requests, B)


async def test_who_waits_too_long_is_told(requests: Requests, clock: Clock) -> None:
    requests.limits = limits(queue_timeout_s=60)
    job = generate(requests, B)
    requests.drop_overdue(clock.now + 59)
    assert len(requests) == 1
    requests.drop_overdue(clock.now + 61)
    await answers(job, Refused)


def test_a_cancelled_request_is_taken_back(requests: Requests) -> None:
    engine = FakeEngine()
    requests.serve_from(engine, A)
    running = generate(requests, A)
    requests.cancel(running)
    requests.cancel(running)
    assert engine.frames[1:] == [Cancel(running.id)]


def test_every_change_is_told(requests: Requests, clock: Clock) -> None:
    changes = []
    requests.on_change = lambda: changes.append(len(requests))
    job = generate(requests, A)
    clock.now += 10
    assert requests.idle_s == 10
    requests.cancel(job)
    assert requests.idle_s == 0
    assert changes == [1, 0]


def finished(job: Job, *, decode_ms: float) -> Finished:
    timings = Timings(4, 10.0, None, 8, decode_ms, None, 0, 0, 0)
    report = SpeculationReport(DraftState.OFF, "off", {}, 8, 0, 0, None, [], "strict")
    return Finished(job.id, "abc", "stop", 4, 0, 8, timings, report)


def test_the_wait_for_the_first_token_is_counted_once_a_request(requests: Requests, clock: Clock) -> None:
    requests.serve_from(FakeEngine(), A)
    streamed, whole = generate(requests, A), generate(requests, A)
    clock.now += 0.5
    requests.answer(Delta(streamed.id, "a", 1))
    assert requests.first_token_status().last_s == 0.5
    clock.now += 1.5
    requests.answer(Delta(streamed.id, "b", 2))
    requests.answer(finished(streamed, decode_ms=1500))
    requests.answer(finished(whole, decode_ms=1000))
    waits = requests.first_token_status()
    assert (waits.count, waits.total_s, waits.last_s, waits.median_s) == (2, 1.5, 1.0, 0.75)


def test_what_gives_no_tokens_has_no_first_one(requests: Requests) -> None:
    requests.serve_from(FakeEngine(), A)
    end(requests, requests.take(Tokenize("t1", "a"), A, client=""))
    refused = generate(requests, A)
    requests.answer(Refused(refused.id, CANCELLED))
    assert requests.first_token_status().count == 0


def test_nobody_makes_room_for_a_request_that_is_refused(requests: Requests) -> None:
    jobs = [generate(requests, A, client="many") for _ in range(5)]
    endless = Generate("x", TextPrompt("a"), Sampling(seed=2**70))
    with pytest.raises(RequestError, match="cannot be passed"):
        requests.take(endless, A, client="one")
    assert requests.num_waiting(A) == len(jobs)
