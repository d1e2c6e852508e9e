"""Server-sent events: how an answer, or the status, becomes a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from sse_starlette import EventSourceResponse

from homespec.frames import Answer, Delta, Finished, Refused
from homespec.job import Job
from homespec.server.board import Board
from homespec.supervisor import Supervisor
from homespec.wire.responses import Shape, error_body

STATUS_INTERVAL_S = 0.4
PING_INTERVAL_S = 15
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


def event(data: Any) -> bytes:
    return b"data: " + _encode(data) + b"\n\n"


def event_stream(events: AsyncIterator[bytes]) -> EventSourceResponse:
    """A response that proxies do not buffer and that pings while nothing happens."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return EventSourceResponse(events, ping=PING_INTERVAL_S, sep="\n", headers=headers)


async def answer_events(
    jobs: Sequence[Job], firsts: Sequence[Answer], shape: Shape, *, include_usage: bool
) -> AsyncIterator[bytes]:
    """The chunks of one answer, of all its choices as they come. `firsts` is the first frame of each, already taken.

    Ends with [DONE], after an error too.
    """
    for index in range(len(jobs)):
        if (role := shape.first_chunk(index)) is not None:
            yield event(role)
    finished: dict[int, Finished] = {}
    async for index, frame in _merged(jobs, firsts):
        match frame:
            case Delta():
                yield event(shape.chunk(index, frame))
            case Finished():
                finished[index] = frame
                yield event(shape.last_chunk(index, frame))
            case Refused(_, error):
                yield event(error_body(error))
                break
    else:
        if include_usage:
            yield event(shape.usage_chunk([finished[index] for index in range(len(jobs))]))
    yield DONE


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


async def status_events(board: Board, supervisor: Supervisor) -> AsyncIterator[bytes]:
    """Snapshots until the daemon stops; the last one says so."""
    while True:
        yield event(board.status())
        if supervisor.stopping.is_set():
            return
        try:
            await asyncio.wait_for(supervisor.stopping.wait(), STATUS_INTERVAL_S)
        except TimeoutError:
            continue
