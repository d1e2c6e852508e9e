"""What the engine answers with one frame: texts to tokens, to vectors, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fastapi import Request

from homespec.errors import RequestError
from homespec.frames import Answer, Detokenize, Embed, Refused, Tokenize
from homespec.server.presence import CLIENT_GONE, unless_gone
from homespec.server.services import Services, client_of
from homespec.supervision.plan import Plan


class Answered(NamedTuple):
    """The frame, and what was done differently from what was asked."""

    frame: Answer
    notices: Sequence[str]


async def ask(
    request: Request, services: Services, frame: Tokenize | Detokenize | Embed, plan: Plan | None = None
) -> Answered:
    """Have the model of `plan` answer, by default the one that is loaded, or was last.

    Raises RequestError with the engine's refusal, and when the client has gone: then nobody hears it.
    """
    job = services.supervisor.submit(frame, client=client_of(request), plan=plan)
    try:
        answer = await unless_gone(request, job.next())
    finally:
        services.supervisor.cancel(job)
    if answer is None:
        raise RequestError("the client is gone", status=CLIENT_GONE)
    if isinstance(answer, Refused):
        raise RequestError.of(answer.error)
    return Answered(answer, job.notices)
