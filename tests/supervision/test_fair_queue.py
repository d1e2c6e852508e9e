from __future__ import annotations

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from homespec.frames import EngineSettings, Generate, Sampling, TextPrompt
from homespec.supervision.fair_queue import FairQueue
from homespec.supervision.job import Job
from homespec.supervision.plan import Plan

_ids = itertools.count()


PLAN = Plan(EngineSettings("m.gguf", "m"))


def job(client: str) -> Job:
    return Job(Generate(f"r{next(_ids)}", TextPrompt("a"), Sampling()), PLAN, client=client)


def filled(clients: str) -> tuple[FairQueue, list[Job]]:
    queue, jobs = FairQueue(), [job(client) for client in clients]
    for each in jobs:
        queue.put(each)
    return queue, jobs


def drained(queue: FairQueue) -> str:
    out = ""
    while (each := queue.pop()) is not None:
        out += each.client
    return out


def test_clients_are_served_in_turn() -> None:
    queue, _ = filled("aaaabbc")
    assert drained(queue) == "abcabaa"
    assert len(queue) == 0


def test_a_client_s_own_requests_keep_their_order() -> None:
    queue, jobs = filled("aba")
    assert [queue.pop(), queue.pop(), queue.pop()] == jobs


def test_one_that_may_not_start_stands_in_nobody_s_way() -> None:
    queue, jobs = filled("aab")
    assert queue.pop(lambda each: each is not jobs[0]) is jobs[1]
    assert queue.pop(lambda each: each.client == "b") is jobs[2]
    assert queue.pop(lambda each: each is not jobs[0]) is None
    assert queue.jobs() == [jobs[0]]


def test_one_that_is_put_back_is_first_again() -> None:
    queue, jobs = filled("aab")
    first = queue.pop()
    assert first is jobs[0]
    queue.put_back(first)
    assert queue.pop(lambda each: each.client == "a") is first


def test_the_longest_line_makes_room() -> None:
    queue, jobs = filled("aaaab")
    assert queue.make_room_for("b") is jobs[3]
    queue.put(job("b"))
    assert queue.make_room_for("b") is None  # its line would be as long as the longest
    assert queue.make_room_for("a") is None
    assert queue.make_room_for("c") is jobs[2]
    assert drained(queue) == "abab"
    assert queue.make_room_for("c") is None


def test_those_who_leave_are_gone() -> None:
    queue, jobs = filled("aab")
    assert queue.remove(jobs[0])
    assert not queue.remove(jobs[0])
    assert queue.remove(jobs[2])
    assert queue.jobs() == [jobs[1]]


def test_who_has_waited_too_long() -> None:
    queue, jobs = filled("ab")
    jobs[0].received_at = 5.0
    jobs[1].received_at = 7.0
    assert queue.waiting_since(6.0) == [jobs[0]]


@given(st.text(st.sampled_from("abc"), max_size=30))
def test_nothing_is_lost_and_nobody_waits_for_two_of_another(clients: str) -> None:
    queue, jobs = filled(clients)
    assert len(queue) == len(jobs)
    served = drained(queue)
    assert Counter(served) == Counter(clients)
    for client in set(clients):
        between = served[served.index(client) : served.rindex(client)]
        for other in set(served) - {client}:
            runs = between.split(client)
            assert all(run.count(other) <= 1 for run in runs)
