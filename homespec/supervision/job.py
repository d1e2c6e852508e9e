"""One request on its way through the engine, seen from the daemon."""

from __future__ import annotations

import asyncio
import time

from homespec.errors import ErrorInfo
from homespec.frames import Answer, Delta, Finished, Generate, Refused, Request
from homespec.supervision.plan import Plan


class Job:
    """The frames that answer one request, in order, ending with one that is not a Delta."""

    def __init__(self, frame: Request, plan: Plan, *, client: str = "") -> None:
        self.frame = frame
        self.plan = plan
        """Of the model that is to answer."""
        self.client = client
        """Who asks: requests of different clients are served in turn."""
        self.received_at = time.monotonic()
        self.has_sent = False
        """Whether the client may have seen part of the answer; then it cannot be replayed."""
        self.time_to_first_token_s: float | None = None
        """From its arrival, replays included; None until it is known."""
        self.times_sent = 0
        """To an engine; the second time is the replay."""
        self.notices: tuple[str, ...] = ()
        """From the engine: what is not done as asked."""
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    @property
    def id(self) -> str:
        return self.frame.request_id

    @property
    def needs_slot(self) -> bool:
        return isinstance(self.frame, Generate)

    def put(self, answer: Answer) -> None:
        self.has_sent = self.has_sent or isinstance(answer, Delta)
        if self.time_to_first_token_s is None:
            self.time_to_first_token_s = self._first_token_s(answer)
        self._answers.put_nowait(answer)

    def fail(self, error: ErrorInfo) -> None:
        self.put(Refused(self.id, error))

    async def next(self) -> Answer:
        """The next frame: the only one of a request that does not stream."""
        return await self._answers.get()

    def _first_token_s(self, answer: Answer) -> float | None:
        """A whole answer comes when it has ended, and says how long ago its first token was."""
        match answer:
            case Delta():
                return time.monotonic() - self.received_at
            case Finished(timings=timings):
                return max(time.monotonic() - self.received_at - timings.predicted_ms / 1000, 0.0)
        return None
