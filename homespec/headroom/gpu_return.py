"""A GPU in whose place the CPU serves, because it was lost or came late: it is looked for while nothing runs, ever more
rarely, and at once when told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from homespec.errors import EngineError
from homespec.headroom.answers import Answers
from homespec.headroom.questions import list_devices
from homespec.headroom.survey import Survey
from homespec.status import Phase

LOOK_S = 30.0
"""Between two looks at the engine, and between the first two for a GPU."""
MOST_S = 600.0
"""Between two for a GPU: each takes a second or two of a process of its own."""


class Engine(Protocol):
    """What is seen of the engine, and done to it."""

    @property
    def phase(self) -> Phase: ...

    @property
    def degraded(self) -> str | None: ...

    @property
    def lacks_gpu(self) -> bool: ...

    @property
    def could_return_to_gpu(self) -> bool: ...

    def return_to_gpu(self, device: str) -> None: ...

    def note(self, text: str) -> None: ...


async def find_gpu(answers: Answers | None = None) -> str | None:
    """The first device that can hold layers, as a fresh process finds it: one that runs does not see what comes. With
    `answers` (as in Survey) none is started where the library is one for the CPU only.
    """
    with suppress(EngineError, OSError):
        async with Survey(answers) as survey:
            return next((device.name for device in await list_devices(survey)), None)
    return None


class GpuReturn:
    """One per daemon."""

    def __init__(self, engine: Engine, find: Callable[[], Awaitable[str | None]] = find_gpu) -> None:
        self._engine = engine
        self._find = find
        self._told = asyncio.Event()
        self._pause_s = LOOK_S
        self._due_s = 0.0

    def look_now(self) -> None:
        """The user says that something has changed."""
        self._told.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), LOOK_S)
            await self.look(time.monotonic())

    async def look(self, now_s: float) -> None:
        """For a GPU, where the CPU serves and nothing runs."""
        was_told = self._told.is_set()
        self._told.clear()
        if was_told or (self._engine.phase is Phase.READY and not self._engine.lacks_gpu):
            self._pause_s, self._due_s = LOOK_S, 0.0
        if now_s < self._due_s or not self._engine.could_return_to_gpu:
            return
        device = await self._find()
        self._due_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, MOST_S)
        if device is not None:
            self._engine.return_to_gpu(device)
        elif was_told and self._engine.degraded is not None:
            self._engine.note("looked for a GPU: llama.cpp finds none; the CPU serves on")
