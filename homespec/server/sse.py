"""Server-sent events: how an answer, or the status, becomes a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from sse_starlette import EventSourceResponse

from homespec.frames import Delta, Finished, Refused
from homespec.job import Job
from homespec.server.board import Board
from homespec.supervisor import Supervisor
from homespec.wire import Shape, error_body

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


async def answer_events(job: Job, first: Any, shape: Shape, *, include_usage: bool) -> AsyncIterator[bytes]:
    """The chunks of one answer. `first` is its first frame, already taken. Ends with [DONE], after an error too."""
    if (role := shape.first_chunk()) is not None:
        yield event(role)
    frame = first
    answers = job.answers()
    while isinstance(frame, Delta):
        yield event(shape.chunk(frame.text))
        frame = await anext(answers)
    match frame:
        case Finished():
            yield event(shape.last_chunk(frame))
            if include_usage:
                yield event(shape.usage_chunk(frame))
        case Refused(_, error):
            yield event(error_body(error))
    yield DONE


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
