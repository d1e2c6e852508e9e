"""Running the generations of one HTTP request: submit, wait, stream, cancel when the client goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from homespec.errors import RequestError
from homespec.frames import Finished, Generate, Refused
from homespec.server.document import NOTICE_HEADER
from homespec.server.events import Events, answer_events
from homespec.server.presence import CLIENT_GONE, unless_gone
from homespec.server.services import Services, client_of
from homespec.server.sse import event_stream
from homespec.supervision.job import Job
from homespec.supervision.plan import Plan
from homespec.supervisor import Supervisor
from homespec.wire.responses import Shape

_MAX_NOTICE_CHARS = 1024

Framing = Callable[[Events], Response]
"""Makes a stream of events a response."""


async def generate(
    request: Request,
    services: Services,
    frames: Sequence[Generate],
    shape: Shape,
    plan: Plan,
    *,
    framing: Framing = event_stream,
    notices: Sequence[str] = (),
) -> Response:
    """Answer `request` with the model of `plan`, one generation per choice, whole or as a stream.

    A stream starts only after the engine's first word on every choice, so that refusals still get their HTTP status.
    """
    supervisor = services.supervisor
    jobs = _submit(supervisor, frames, client_of(request), plan)
    try:
        firsts = await unless_gone(request, _firsts(jobs))
    except BaseException:
        _cancel(supervisor, jobs)
        raise
    if firsts is None:
        _cancel(supervisor, jobs)
        return Response(status_code=CLIENT_GONE)
    for first in firsts:
        if isinstance(first, Refused):
            _cancel(supervisor, jobs)
            raise RequestError.of(first.error)
    if frames[0].stream:
        response = framing(answer_events(jobs, firsts, shape))
    else:
        response = JSONResponse(shape.whole([first for first in firsts if isinstance(first, Finished)]))
    if notices := (*notices, *jobs[0].notices):
        response.headers[NOTICE_HEADER] = header_text(notices)
    return _Followed(response, partial(_cancel, supervisor, jobs))


class _Followed(Response):
    """Another response, and what is to be done after it: whatever ended it, and if its client left before it began."""

    def __init__(self, response: Response, then: Callable[[], None]) -> None:
        super().__init__(status_code=response.status_code)
        self._response = response
        self._then = then

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._then()


def header_text(notices: Sequence[str]) -> str:
    text = "; ".join(" ".join(notice.split()) for notice in notices)
    return text.encode("ascii", errors="replace").decode()[:_MAX_NOTICE_CHARS]


def _submit(supervisor: Supervisor, frames: Sequence[Generate], client: str, plan: Plan) -> list[Job]:
    """All or none."""
    jobs: list[Job] = []
    try:
        for frame in frames:
            jobs.append(supervisor.submit(frame, client=client, plan=plan))
    except RequestError:
        _cancel(supervisor, jobs)
        raise
    return jobs


def _cancel(supervisor: Supervisor, jobs: Sequence[Job]) -> None:
    for job in jobs:
        supervisor.cancel(job)


async def _firsts(jobs: Sequence[Job]) -> list[Any]:
    return [await job.next() for job in jobs]
