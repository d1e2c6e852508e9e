from __future__ import annotations

import asyncio

from homespec.errors import ErrorInfo
from homespec.frames import Delta, EngineSettings, Generate, Refused, Sampling, TextPrompt
from homespec.supervision.job import Job
from homespec.supervision.plan import Plan


def a_job() -> Job:
    return Job(Generate("r1", TextPrompt("a"), Sampling()), Plan(EngineSettings("m.gguf", "m")))


async def test_frames_come_in_order() -> None:
    job = a_job()
    job.put(Delta("r1", "a", 1))
    job.put(Delta("r1", "b", 2))
    assert [await job.next(), await job.next()] == [Delta("r1", "a", 1), Delta("r1", "b", 2)]


async def test_next_waits() -> None:
    job = a_job()
    waiting = asyncio.create_task(job.next())
    await asyncio.sleep(0)
    assert not waiting.done()
    job.put(Delta("r1", "a", 1))
    assert await waiting == Delta("r1", "a", 1)


async def test_only_a_delta_may_have_been_seen() -> None:
    job = a_job()
    assert job.id == "r1"
    assert not job.has_sent
    job.put(Delta("r1", "a", 1))
    assert job.has_sent


async def test_failing_is_an_answer() -> None:
    job = a_job()
    error = ErrorInfo("gone", 500)
    job.fail(error)
    assert not job.has_sent
    assert await job.next() == Refused("r1", error)
