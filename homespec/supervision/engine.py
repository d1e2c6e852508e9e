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
from homespec.frames import (
    EngineSettings,
    FromEngine,
    LoadFailed,
    Measured,
    Readmit,
    Ready,
    SetDrafter,
    Snapshot,
    Withdraw,
)
from homespec.status import ModelMemory
from homespec.supervision.plan import Plan

logger = logging.getLogger("homespec.supervisor")

Receive = Callable[[FromEngine], None]
_ASIDE = "another model answers"


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

    def __init__(self, child: EngineChild, plan: Plan, settings: EngineSettings, receive: Receive) -> None:
        self.child = child
        self.plan = plan
        self._settings = settings
        self._receive = receive
        self.measured: Measured | None = None
        """What it has said of its exactness last."""
        self.memory = ModelMemory()
        """What its models hold, as it has said last."""
        self._ready_at: float | None = None
        self._load_error: HomespecError | None = None
        self._leaving: asyncio.Task[str] | None = None
        self._is_aside = asyncio.Event()
        self._life = asyncio.create_task(self._run())

    @classmethod
    async def start(cls, plan: Plan, withdrawn: str, receive: Receive) -> Engine:
        """Have it load what the plan says, and pass on what it says. Raises EngineError when there is no process."""
        settings = plan.start_with(withdrawn)
        return cls(await EngineChild.start(settings), plan, settings, receive)

    @property
    def is_dismissed(self) -> bool:
        return self._leaving is not None

    def dismiss(self) -> None:
        """Have it end soon; what it says until then still counts, but its end is no death."""
        self._leaving = self._leaving or asyncio.create_task(self.child.stop())

    async def ended(self) -> Ended:
        """Wait until it is gone."""
        return await asyncio.shield(self._life)

    async def served(self) -> Ended | None:
        """Wait until it is gone, or has been set aside: None."""
        aside = asyncio.create_task(self._is_aside.wait())
        await asyncio.wait({self._life, aside}, return_when=asyncio.FIRST_COMPLETED)
        aside.cancel()
        return self._life.result() if self._life.done() else None

    def on_end(self, then: Callable[[], None]) -> None:
        """Have `then` called once it is gone."""
        self._life.add_done_callback(lambda _: then())

    def set_aside(self) -> None:
        """Another model answers: this one keeps the target loaded, and no drafter. What it says is for nobody."""
        self._settings = self.plan.start_with(_ASIDE)
        self._receive = lambda _: None
        self.child.send(Withdraw(_ASIDE))
        self._is_aside.set()

    def take_back(self, receive: Receive) -> None:
        """It answers again; `catch_up` tells it what has changed."""
        self._receive = receive
        self._is_aside.clear()

    async def _run(self) -> Ended:
        """Pass on what it says until it is gone."""
        broke_protocol = False
        try:
            async for frame in self.child.frames():
                self._observe(frame)
                self._receive(frame)
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
            case Measured():
                self.measured = frame
            case Snapshot(snapshot):
                self.memory = snapshot.target_memory + snapshot.drafter_memory
            case LoadFailed(kind, message):
                self._load_error = getattr(errors, kind, ModelError)(message)
