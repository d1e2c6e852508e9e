"""The engine and every request in flight, as the rest of the daemon uses them.

Single writer: everything here runs on the daemon's event loop.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

from homespec.errors import RequestError
from homespec.frames import Admit, EngineSettings, ReloadDrafter, Request, SetDrafter
from homespec.ledger import Ledger
from homespec.memory_plan import MemoryPlan
from homespec.status import (
    EngineStatus,
    Event,
    FirstTokenStatus,
    ModelStatus,
    Phase,
    QueueStatus,
    RequestStatus,
    ResidentStatus,
)
from homespec.supervision.job import Job
from homespec.supervision.life import Life
from homespec.supervision.limits import Limits
from homespec.supervision.plan import Plan
from homespec.supervision.requests import Requests, unavailable
from homespec.supervision.state import State
from homespec.supervision.watch import Watch


class Supervisor:
    """Owns the engine process and every request in flight."""

    def __init__(self, plan: Plan, limits: Limits) -> None:
        """`plan`: of the model that this daemon is for, which is loaded first."""
        self.state = State()
        self._requests = Requests(limits, slots=plan.asked.slots)
        self._life = Life(plan, self.state, self._requests, limits)
        self._watch = Watch(self._life, self.state, self._requests)

    # Requests

    def submit(self, frame: Request, *, client: str = "", plan: Plan | None = None) -> Job:
        """Take a request on; `plan` names the model that is to answer, by default the one that is loaded, or was last.

        Raises RequestError 503 during the first load, when stopping, and when the queue is full; 400 when it holds
        something that cannot cross to the engine.
        """
        self.check_open()
        return self._requests.take(frame, plan or self._life.plan, client=client)

    def cancel(self, job: Job) -> None:
        """The client is gone. Safe to call for a request that has ended."""
        self._requests.cancel(job)

    def check_open(self) -> None:
        """Raises RequestError 503 while no request can be taken on, whatever it asks."""
        state = self.state
        if state.phase in (Phase.STOPPING, Phase.FAILED):
            raise RequestError.of(unavailable(state.detail, str(state.phase)))
        if state.phase is Phase.LOADING and state.model is None:  # later loads are on their way for a request
            message = f"the model is loading ({state.load_progress:.0%}); try again in a moment"
            raise RequestError.of(unavailable(message, "loading"))

    def cancel_request(self, request_id: str) -> int:
        """End a request whose client is still there, with all its choices: the client is told. How many were ended."""
        num_cancelled = self._requests.end(request_id)
        if num_cancelled:
            self.state.tell("daemon", f"request {request_id} cancelled")
        return num_cancelled

    # Switches

    def reload_drafter(self) -> None:
        """Have the draft model unloaded and loaded again. Raises RequestError when there is none to load."""
        plan = self._life.plan
        if plan.settings.draft_path is None:
            raise RequestError(
                "there is no draft model to reload; start homespec with --draft PATH", code="no_draft_model"
            )
        self.state.tell("drafter", "the draft model is to be loaded again")
        plan.quarantined.clear()  # only drafters with a file are ever put there
        self._watch.wake_drafter()
        self._life.tell_engine(ReloadDrafter())

    def set_drafter(self, mode: str) -> None:
        """Set the process-wide switch; it outlives a restart of the engine, and holds for every model."""
        self._life.course.switch = mode
        self._life.plan.switch(mode)
        self.state.tell("drafter", f"drafting switched to {mode!r}")
        self._watch.wake_drafter()
        self._life.tell_engine(SetDrafter(mode))

    def withdraw(self, reason: str) -> None:
        """Have every drafter with memory of its own unloaded; it stays out, restarts included, until `readmit`."""
        self._set_pressure(reason, reason)

    def readmit(self, reason: str) -> None:
        """Drafters with memory of their own may be loaded again."""
        self._set_pressure("", reason)

    def give_up_residents(self, reason: str) -> None:
        """Models that do not answer at present are unloaded; one that is asked for is loaded again."""
        self._life.residents.give_up(reason)

    def doubt_gpu(self, reason: str) -> None:
        """What the driver says against a GPU of the engine's; empty: nothing."""
        if self._life.gpu_doubt.hear(reason):
            self.state.tell("engine", f"degraded, {reason}")

    @property
    def lacks_gpu(self) -> bool:
        """Whether the CPU serves where a GPU would, if there was one."""
        return self._life.plan.lacks_gpu

    @property
    def could_return_to_gpu(self) -> bool:
        """Whether the CPU serves in the place of a GPU, and nothing runs that a look at it would disturb."""
        return self.lacks_gpu and self._life.ready_engine is not None and not len(self._requests)

    def return_to_gpu(self, device: str) -> None:
        """A fresh process finds one: have the engine started anew with it, unless a request has come meanwhile."""
        if self.could_return_to_gpu:
            self._life.return_to_gpu(device)

    def admit(self, way: Admit, reason: str) -> None:
        """The draft file did not fit when the engine was started, and does so now: have it loaded that way."""
        self._life.plan.admit(way)
        self.state.tell("drafter", reason)
        self._life.tell_engine(way)

    def _set_pressure(self, pressure: str, text: str) -> None:
        self._life.absence.pressure = pressure
        self.state.tell("drafter", text)
        self._life.tell_engine(self._life.absence.frame)

    def set_limits(self, limits: Limits) -> None:
        """Take new limits; what runs is not touched."""
        self._requests.limits = self._life.limits = limits

    def set_home(self, plan: Plan) -> None:
        """The model that this daemon is for is another one."""
        self._life.course.home = plan

    def on_ready(self, then: Callable[[Plan], None]) -> None:
        """Have `then` called whenever a model has been loaded."""
        self._life.on_ready = then

    def note(self, text: str) -> None:
        """An event of the daemon itself, for the log and /status."""
        self.state.tell("daemon", text)

    # Life

    async def run(self) -> None:
        """Until `stop`. Raises ModelError when the target cannot be loaded, EngineError when it keeps dying."""
        watching = asyncio.create_task(self._watch.run())
        try:
            await self._life.run()
        finally:
            watching.cancel()

    async def restart(self, plan: Plan) -> str | None:
        """Go on with another plan in place of the present one; requests that have sent nothing move over to it. When it
        cannot load what it is told to, the plan from before comes back, and the reason is returned.
        """
        return await self._life.replace(plan)

    async def stop(self) -> None:
        """End all requests with an error, then the engine."""
        self.state.enter(Phase.STOPPING, "shutting down")
        self._requests.fail_all(unavailable("homespec is shutting down", "shutting_down"))
        await self._life.stop()

    def kill(self) -> None:
        """End the engine at once."""
        self._life.kill()

    # What everyone sees

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def memory_plan(self) -> MemoryPlan | None:
        """What the engine was expected to take; None when nobody estimated it."""
        return self._life.plan.memory

    @property
    def detail(self) -> str:
        return self.state.detail

    @property
    def degraded(self) -> str | None:
        """Why requests get less than was asked for, or nothing for now; with the remedy. None: they do not."""
        return self._life.degraded

    @property
    def load_progress(self) -> float:
        return self.state.load_progress

    @property
    def model(self) -> ModelStatus | None:
        return self.state.model

    @property
    def exactness(self) -> str:
        return self.state.exactness

    @property
    def exactness_reason(self) -> str:
        return self.state.exactness_reason

    @property
    def ledger(self) -> Ledger:
        return self.state.ledger

    @property
    def started_at(self) -> float:
        return self.state.started_at

    @property
    def events(self) -> deque[Event]:
        return self.state.events

    @property
    def limits(self) -> Limits:
        return self._life.limits

    @property
    def plan(self) -> Plan:
        """Of the model that is loaded, or is to be, or was last."""
        return self._life.plan

    @property
    def settings(self) -> EngineSettings:
        """As they fit, and as they were switched since."""
        return self._life.plan.settings

    @property
    def drafter_mode(self) -> str:
        """The process-wide switch."""
        return self.settings.drafter_mode

    @property
    def waited_s(self) -> float:
        """Seconds that a busy engine has made no progress, or that an engine has not spoken."""
        return self._life.progress.waited_s(time.monotonic())

    @property
    def stopping(self) -> asyncio.Event:
        """Set once the daemon ends: open streams must end too."""
        return self._life.stopped

    def is_resident(self, plan: Plan) -> bool:
        """Whether it is loaded while another model answers."""
        return plan in self._life.residents

    def residents(self) -> tuple[ResidentStatus, ...]:
        """Models that stay loaded while another one answers."""
        return self._life.residents.status()

    def target_bytes(self, plan: Plan) -> int | None:
        """Of a loaded model: what it holds, or was planned to hold while another one answers; None: unknown."""
        snapshot = self.ledger.snapshot
        if plan is self.plan:
            return snapshot.target_memory.total_bytes if snapshot else None
        return plan.memory.target.total_bytes if plan.memory else None

    def expires_in_s(self, plan: Plan) -> float | None:
        """Seconds until a loaded model is given up, should nobody ask for it; None: never."""
        stays_s = self.limits.idle.target_s(plan.keep_s)
        if not math.isfinite(stays_s):
            return None
        return stays_s - (self._requests.idle_s if plan is self.plan else self._life.residents.idle_s(plan))

    def engine_status(self) -> EngineStatus:
        life, progress = self._life, self._life.progress
        return EngineStatus(
            pid=life.engine.child.pid if life.engine else None,
            restarts=life.aftermath.restarts,
            last_exit=life.aftermath.last_exit,
            progress=progress.counter,
            progress_age_s=time.monotonic() - progress.since if progress.busy else None,
            starts=dict(self.state.starts),
            idle_unloads=dict(self.state.idle_unloads),
            residents=tuple(plan.model_id for plan in life.residents),
        )

    def waiting(self) -> tuple[RequestStatus, ...]:
        """Requests that the engine does not know yet."""
        return self._requests.waiting()

    def waiting_for(self, plan: Plan) -> int:
        """Requests for that model that wait."""
        return self._requests.num_waiting(plan)

    def queue_status(self) -> QueueStatus:
        return self._requests.status()

    def first_token_status(self) -> FirstTokenStatus:
        return self._requests.first_token_status()
