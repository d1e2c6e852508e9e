"""From the engine's frames to the events of one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from homespec.frames import Answer, Delta, Finished, Refused
from homespec.supervision.job import Job
from homespec.wire.responses import Shape

Events = AsyncIterator[dict[str, Any]]


async def answer_events(jobs: Sequence[Job], firsts: Sequence[Answer], shape: Shape) -> Events:
    """The events of one answer, of all its choices as they come. `firsts` is the first frame of each, already taken.

    An error is the last event.
    """
    for index in range(len(jobs)):
        for event in shape.opening(index):
            yield event
    finished: dict[int, Finished] = {}
    async for index, frame in _merged(jobs, firsts):
        match frame:
            case Delta():
                events = shape.delta(index, frame)
            case Finished():
                finished[index] = frame
                events = shape.ending(index, frame)
            case Refused(_, error):
                for event in shape.failure(error):
                    yield event
                return
            case _:
                continue
        for event in events:
            yield event
    for event in shape.closing([finished[index] for index in range(len(jobs))]):
        yield event


async def _merged(jobs: Sequence[Job], firsts: Sequence[Answer]) -> AsyncIterator[tuple[int, Answer]]:
    """Frames of all jobs as they come, each until its last."""
    if len(jobs) == 1:  # the usual case, without a task per token
        frame = firsts[0]
        yield 0, frame
        while isinstance(frame, Delta):
            frame = await jobs[0].next()
            yield 0, frame
        return
    waiting: dict[asyncio.Task[Answer], int] = {}
    arrived = list(enumerate(firsts))
    try:
        while arrived or waiting:
            for index, frame in arrived:
                yield index, frame
                if isinstance(frame, Delta):
                    waiting[asyncio.create_task(jobs[index].next())] = index
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED) if waiting else (set(), None)
            arrived = [(waiting.pop(task), task.result()) for task in done]
    finally:
        for task in waiting:
            task.cancel()
