"""When a server does not answer: wait for it, ask again, leave the prompt out, or end the bench."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeVar

from homespec.client.failures import StreamCutError, UnreachableError
from homespec.errors import HomespecError, RequestError

T = TypeVar("T")

PAUSE_S = 1.0
"""Before the second try."""
DEFAULT_WAIT_S = 5.0
"""For a busy server that does not say how long."""
LONGEST_WAIT_S = 120.0
"""For one request, all waits together."""

OF_THE_SET_UP = frozenset({401, 402, 403, 404, 405, 407, 410, 415, 501})
"""What every other prompt would be told as well: a wrong key, path, model or server."""
BUSY = frozenset({429, 503})
_PASSING = frozenset({408, 409, 425})


class PromptRefused(HomespecError):
    """A server answered, and not with an answer to this prompt; the text is the server's."""


class PromptFailed(HomespecError):
    """The answer to this prompt broke off twice."""


class ServerBusy(HomespecError):
    """It is busy for longer than is waited for."""


class ServerSilent(HomespecError):
    """It took a request and says nothing of its answer; another try would wait as long."""


class Course(Enum):
    """What follows an error."""

    END = "the bench ends"
    LEAVE_OUT = "this prompt counts nowhere on this side"
    WAIT = "the server is busy"
    AGAIN = "may go well the next time"


def course(error: HomespecError) -> Course:
    """Of an error that a client raised."""
    if isinstance(error, StreamCutError | UnreachableError):
        return Course.AGAIN
    if not isinstance(error, RequestError):
        return Course.END
    status = error.info.status
    if status in BUSY:
        return Course.WAIT
    if status < 400 or status in OF_THE_SET_UP:
        return Course.END
    return Course.AGAIN if status >= 500 or status in _PASSING else Course.LEAVE_OUT


async def patiently(request: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
    """What it gives, and whether that took a second try.

    Raises PromptRefused and PromptFailed for what concerns this prompt, and what ends the bench: ServerBusy,
    UnreachableError when nothing answers twice, RequestError for what is wrong with all prompts.
    """
    waited_s, again = 0.0, False
    while True:
        try:
            return await request(), again
        except HomespecError as error:
            match course(error):
                case Course.WAIT:
                    waited_s += await _wait(error, waited_s)
                case Course.AGAIN if not again:
                    again = True
                    await asyncio.sleep(PAUSE_S)
                case Course.AGAIN if not isinstance(error, UnreachableError):
                    raise PromptFailed(f"it failed twice: {error}") from error
                case Course.LEAVE_OUT:
                    raise PromptRefused(str(error)) from error
                case _:
                    raise


async def _wait(error: HomespecError, waited_s: float) -> float:
    """As long as it asks for; returns the seconds. Raises ServerBusy when that is too long."""
    asked_s = error.info.retry_after_s if isinstance(error, RequestError) else None
    wait_s = DEFAULT_WAIT_S if asked_s is None else max(float(asked_s), PAUSE_S)
    if waited_s + wait_s > LONGEST_WAIT_S:
        raise ServerBusy(
            f"still busy after {waited_s:g} s of waiting and asks for {wait_s:g} s more, over the limit of "
            f"{LONGEST_WAIT_S:g} s ({error}); run the bench while nobody else asks it"
        ) from error
    await asyncio.sleep(wait_s)
    return wait_s
