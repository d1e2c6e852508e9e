"""Running the generations of one HTTP request: submit, wait, stream, cancel when the client goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from homespec.errors import RequestError
from homespec.frames import Finished, Generate, Refused
from homespec.job import Job
from homespec.server.events import Events, answer_events
from homespec.server.services import Services, client_of
from homespec.server.sse import event_stream
from homespec.supervisor import Supervisor
from homespec.wire.responses import Shape

T = TypeVar("T")
NOTICE_HEADER = "X-Homespec-Notice"
_CLIENT_GONE = 499
"""nginx's status for a client that closed its connection; nobody receives it."""
_MAX_NOTICE_CHARS = 1024

Framing = Callable[[Events], Response]
"""Makes a stream of events a response."""


async def generate(
    request: Request,
    services: Services,
    frames: Sequence[Generate],
    shape: Shape,
    *,
    framing: Framing = event_stream,
    notices: Sequence[str] = (),
) -> Response:
    """Answer `request`, one generation per choice, whole or as a stream.

    A stream starts only after the engine's first word on every choice, so that refusals still get their HTTP status.
    """
    supervisor = services.supervisor
    jobs = _submit(supervisor, frames, client_of(request))
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
        response = framing(_cancelling(supervisor, jobs, answer_events(jobs, firsts, shape)))
    else:
        response = JSONResponse(shape.whole([first for first in firsts if isinstance(first, Finished)]))
    if notices := (*notices, *jobs[0].notices):
        response.headers[NOTICE_HEADER] = _header_text(notices)
    return response


def _header_text(notices: Sequence[str]) -> str:
    text = "; ".join(" ".join(notice.split()) for notice in notices)
    return text.encode("ascii", errors="replace").decode()[:_MAX_NOTICE_CHARS]


def _submit(supervisor: Supervisor, frames: Sequence[Generate], client: str) -> list[Job]:
    """All or none."""
    jobs: list[Job] = []
    try:
        for frame in frames:
            jobs.append(supervisor.submit(frame, client=client))
    except RequestError:
        _cancel(supervisor, jobs)
        raise
    return jobs


def _cancel(supervisor: Supervisor, jobs: Sequence[Job]) -> None:
    for job in jobs:
        supervisor.cancel(job)


async def _firsts(jobs: Sequence[Job]) -> list[Any]:
    return [await job.next() for job in jobs]


async def _cancelling(supervisor: Supervisor, jobs: Sequence[Job], events: Events) -> AsyncIterator[dict[str, Any]]:
    """Whatever ends the stream early cancels the request."""
    try:
        async for event in events:
            yield event
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
