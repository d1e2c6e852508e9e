"""Running one generation for an HTTP request: submit, wait, stream, cancel when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from homespec.errors import RequestError
from homespec.frames import Answer, Finished, Generate, Refused
from homespec.job import Job
from homespec.server.sse import answer_events, event_stream
from homespec.supervisor import Supervisor
from homespec.wire import Shape

T = TypeVar("T")
_CLIENT_GONE = 499
"""nginx's status for a client that closed its connection; nobody receives it."""


async def generate(
    request: Request, supervisor: Supervisor, frame: Generate, shape: Shape, *, include_usage: bool
) -> Response:
    """Answer `request` with the outcome of `frame`, whole or as a stream.

    A stream starts only after the engine's first word, so that refusals still get their HTTP status.
    """
    job = supervisor.submit(frame)
    try:
        first = await _unless_gone(request, _first(job))
    except BaseException:
        supervisor.cancel(job)
        raise
    if first is None:
        supervisor.cancel(job)
        return Response(status_code=_CLIENT_GONE)
    if isinstance(first, Refused):
        raise RequestError.of(first.error)
    if frame.stream:
        return event_stream(_cancelling(supervisor, job, answer_events(job, first, shape, include_usage=include_usage)))
    assert isinstance(first, Finished)
    return JSONResponse(shape.whole(first))


async def _first(job: Job) -> Answer:
    return await job.last()


async def _cancelling(supervisor: Supervisor, job: Job, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whatever ends the stream early cancels the request."""
    try:
        async for data in events:
            yield data
    finally:
        supervisor.cancel(job)


async def _unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None when the client closes its connection first."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_disconnected(request))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
