"""One request on its way through the engine, seen from the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from homespec.errors import ErrorInfo
from homespec.frames import Answer, Delta, Detokenize, Generate, Refused, Tokenize


class Job:
    """The frames that answer one request, in order, ending with one that is not a Delta."""

    def __init__(self, frame: Generate | Tokenize | Detokenize) -> None:
        self.frame = frame
        self.has_sent = False
        """Whether the client may have seen part of the answer; then it cannot be replayed."""
        self.replayed = False
        self._answers: asyncio.Queue[Answer] = asyncio.Queue()

    @property
    def id(self) -> str:
        return self.frame.request_id

    def put(self, answer: Answer) -> None:
        self.has_sent = self.has_sent or isinstance(answer, Delta)
        self._answers.put_nowait(answer)

    def fail(self, error: ErrorInfo) -> None:
        self.put(Refused(self.id, error))

    async def answers(self) -> AsyncIterator[Answer]:
        while True:
            answer = await self._answers.get()
            yield answer
            if not isinstance(answer, Delta):
                return

    async def last(self) -> Answer:
        """The answer of a request that does not stream."""
        return await self._answers.get()
