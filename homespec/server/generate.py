"""Running the generations of one HTTP request: submit, wait, stream, cancel when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Literal, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from homespec.errors import RequestError
from homespec.frames import Finished, Generate, Refused
from homespec.job import Job
from homespec.server.services import Services
from homespec.server.sse import answer_events, event_stream
from homespec.supervisor import Supervisor
from homespec.wire.requests import ChatRequest, CompletionRequest
from homespec.wire.responses import Shape

T = TypeVar("T")
_CLIENT_GONE = 499
"""nginx's status for a client that closed its connection; nobody receives it."""


async def generate(
    request: Request,
    services: Services,
    body: ChatRequest | CompletionRequest,
    partition: str,
    kind: Literal["chat", "completion"],
) -> Response:
    """Answer `request`, one generation per choice, whole or as a stream.

    A stream starts only after the engine's first word on every choice, so that refusals still get their HTTP status.
    """
    shape = Shape(kind, services.check_model(body.model))
    frames = body.frames(shape.id, partition=partition)
    supervisor = services.supervisor
    jobs = _submit(supervisor, frames)
    try:
        firsts = await _unless_gone(request, _firsts(jobs))
    except BaseException:
        _cancel(supervisor, jobs)
        raise
    if firsts is None:
        _cancel(supervisor, jobs)
        return Response(status_code=_CLIENT_GONE)
    for first in firsts:
        if isinstance(first, Refused):
            _cancel(supervisor, jobs)
            raise RequestError.of(first.error)
    if frames[0].stream:
        events = answer_events(jobs, firsts, shape, include_usage=body.stream_options.include_usage)
        return event_stream(_cancelling(supervisor, jobs, events))
    finished = [first for first in firsts if isinstance(first, Finished)]
    return JSONResponse(shape.whole(finished, with_logprobs=frames[0].num_logprobs is not None))


def _submit(supervisor: Supervisor, frames: Sequence[Generate]) -> list[Job]:
    """All or none."""
    jobs: list[Job] = []
    try:
        for frame in frames:
            jobs.append(supervisor.submit(frame))
    except RequestError:
        _cancel(supervisor, jobs)
        raise
    return jobs


def _cancel(supervisor: Supervisor, jobs: Sequence[Job]) -> None:
    for job in jobs:
        supervisor.cancel(job)


async def _firsts(jobs: Sequence[Job]) -> list[Any]:
    return [await job.next() for job in jobs]


async def _cancelling(
    supervisor: Supervisor, jobs: Sequence[Job], events: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    """Whatever ends the stream early cancels the request."""
    try:
        async for data in events:
            yield data
    finally:
        _cancel(supervisor, jobs)


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
