"""One engine from start to end, as the daemon sees it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from homespec import errors
from homespec.child import KILLED, EngineChild
from homespec.errors import EngineError, HomespecError, ModelError
from homespec.frames import EngineSettings, FromEngine, LoadFailed, Readmit, Ready, SetDrafter, Withdraw
from homespec.supervision.plan import Plan

logger = logging.getLogger("homespec.supervisor")


@dataclass(frozen=True, slots=True)
class Ended:
    """How an engine came to its end."""

    how: str = "never started"
    ready_for_s: float = 0.0
    load_error: HomespecError | None = None
    """Why the target cannot be loaded."""
    broke_protocol: bool = False
    was_dismissed: bool = False
    """It was told to go."""

    @property
    def was_killed(self) -> bool:
        """By SIGKILL, and not because it talked nonsense."""
        return self.how == KILLED and not self.broke_protocol


class Engine:
    """A process, what it is to be, and the settings that it was started with."""

    def __init__(self, child: EngineChild, plan: Plan, settings: EngineSettings) -> None:
        self.child = child
        self.plan = plan
        self._settings = settings
        self._ready_at: float | None = None
        self._load_error: HomespecError | None = None
        self._leaving: asyncio.Task[str] | None = None

    @classmethod
    async def start(cls, plan: Plan, withdrawn: str) -> Engine:
        settings = plan.start_with(withdrawn)
        return cls(await EngineChild.start(settings), plan, settings)

    @property
    def is_dismissed(self) -> bool:
        return self._leaving is not None

    def dismiss(self) -> None:
        """Have it end soon; what it says until then still counts, but its end is no death."""
        self._leaving = self._leaving or asyncio.create_task(self.child.stop())

    async def run(self, receive: Callable[[FromEngine], None]) -> Ended:
        """Pass on what it says until it is gone."""
        broke_protocol = False
        try:
            async for frame in self.child.frames():
                self._observe(frame)
                receive(frame)
        except EngineError as error:
            logger.error("%s", error)
            broke_protocol = True
            self.child.kill()
        how = await (self._leaving or self.child.wait())
        ready_for_s = time.monotonic() - self._ready_at if self._ready_at else 0.0
        return Ended(how, ready_for_s, self._load_error, broke_protocol, self.is_dismissed)

    def catch_up(self, withdrawn: str) -> None:
        """Tell it what has changed while it was loading."""
        then, now = self._settings, self.plan.start_with(withdrawn)
        if now.withdrawn != then.withdrawn:
            self.child.send(Withdraw(now.withdrawn) if now.withdrawn else Readmit())
        if now.drafter_mode != then.drafter_mode or now.quarantined != then.quarantined:
            self.child.send(SetDrafter(now.drafter_mode))

    def _observe(self, frame: FromEngine) -> None:
        match frame:
            case Ready():
                self._ready_at = time.monotonic()
            case LoadFailed(kind, message):
                self._load_error = getattr(errors, kind, ModelError)(message)
