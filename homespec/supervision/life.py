"""One engine after another: what each is started for, and how it is used.

Single writer: everything here runs on the daemon's event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from homespec.errors import EngineError, HomespecError
from homespec.frames import Frame
from homespec.status import ModelStatus, Phase, StartCause
from homespec.supervision.absence import Absence
from homespec.supervision.aftermath import Aftermath
from homespec.supervision.course import Course
from homespec.supervision.engine import Ended, Engine
from homespec.supervision.gpu_doubt import GpuDoubt
from homespec.supervision.hearing import Hearing
from homespec.supervision.limits import Limits
from homespec.supervision.plan import Plan
from homespec.supervision.progress import Progress
from homespec.supervision.requests import Requests
from homespec.supervision.residents import Resident, Residents
from homespec.supervision.state import UNMEASURED, State

STOP_LIMIT_S = 3.5
"""What a driver holds for longer, the kernel ends after this process."""


class Life:
    """Keeps the engine alive that the plan of the moment wants, or none while nobody asks for one."""

    def __init__(self, plan: Plan, state: State, requests: Requests, limits: Limits) -> None:
        self.course = Course(plan, requests)
        self.limits = limits
        self.engine: Engine | None = None
        self.progress = Progress()
        self.absence = Absence()
        self.stopped = asyncio.Event()
        self.on_ready: Callable[[Plan], None] = lambda _: None
        self._state = state
        self._requests = requests
        self._called = asyncio.Event()
        self.gpu_doubt = GpuDoubt()
        self.residents = Residents(state)
        self.aftermath = Aftermath(self.course, state, requests, self.residents, self.progress, self._pause)
        self._stall = ""
        """Why the engine was killed."""

    @property
    def plan(self) -> Plan:
        return self.course.plan

    @property
    def ready_engine(self) -> Engine | None:
        return self.engine if self._state.phase is Phase.READY else None

    @property
    def degraded(self) -> str | None:
        """Why requests get less than was asked for, or nothing for now: a GPU that is not there."""
        return self.plan.degraded or self.aftermath.gpu_wait.reason or self.gpu_doubt.open_reason

    def tell_engine(self, frame: Frame) -> None:
        if (engine := self.ready_engine) is not None:
            engine.child.send(frame)

    # What is asked of it

    async def run(self) -> None:
        """Until `stop`. Raises ModelError when the target cannot be loaded, EngineError when it keeps dying."""
        while not self.stopped.is_set():
            if self._state.phase is Phase.IDLE:
                await self._wait_for_call()
            else:
                await self._live_once()

    def call(self) -> None:
        """There may be something to load."""
        self._called.set()

    def swap(self, plan: Plan) -> None:
        """Load another model in place of the present one, which has nothing to do.

        Where somebody measures what fits, the present one stays loaded until that is known.
        """
        assert self.engine is not None
        self._state.tell("model", f"{self.plan.model_id} makes way for {plan.model_id}, which a request asks for")
        self._load(plan, StartCause.SWAP)
        if plan.fit is None:
            self._dismiss(self.engine)
        else:
            self._set_aside(self.engine)

    def unload(self, why: str) -> None:
        """End the engine, and load again when a request comes."""
        assert self.engine is not None
        self._state.enter(Phase.IDLE, f"{self.plan.model_id} is not loaded: {why}; the next request loads it")
        self._state.idle_unloads["target"] += 1
        self.residents.give_up(why)
        self._state.tell("model", f"{self.plan.model_id} unloaded: {why}")
        self._dismiss(self.engine)

    def renew(self, why: str) -> None:
        """Start the engine anew, which has nothing to do: residents go too, what is wrong with it is so with them."""
        assert self.engine is not None
        self.aftermath.begin_again(why, f"{why}; starting the engine again")
        self.residents.give_up(why)
        self._state.tell("engine", self._state.detail)
        self._dismiss(self.engine)

    def return_to_gpu(self, device: str) -> None:
        """One is listed now. Should it not take the model, the CPU follows at once."""
        self.aftermath.gpu_wait.is_given_up = True
        self.plan.want_gpu()
        self.renew(f"{device} is there now")

    async def replace(self, plan: Plan) -> str | None:
        """Go on as another plan wants it. When that cannot be loaded, the plan from before comes back, and the reason
        is returned.
        """
        if self._state.phase is Phase.IDLE:
            self.course.exchange(plan)
            return None
        outcome = self.course.replace(plan)
        self.residents.give_up("the configuration is another one")
        self.aftermath.gpu_wait.over()
        self._state.enter(Phase.RESTARTING, "starting the engine with a new configuration")
        if self.engine is not None:
            self._dismiss(self.engine)
        return await outcome

    async def stop(self) -> None:
        self.stopped.set()
        self._called.set()
        self._requests.hold()
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_LIMIT_S):
                if (engine := self.engine) is not None:
                    engine.dismiss()
                    await engine.ended()
                await self.residents.stop()

    def kill(self, why: str = "") -> None:
        """End the engine at once; `why` is what it is found to have died of. Without one, every engine ends."""
        if not why:
            self.residents.kill()
        if self.engine is None:
            return
        if why:
            self._requests.hold()
            self._stall = why
            self._state.enter(Phase.STALLED, f"the engine {why}; killing it")
            self._state.tell("engine", self._state.detail)
        self.engine.child.kill()

    # One engine

    async def _wait_for_call(self) -> None:
        self._called.clear()
        if (plan := self._requests.next_plan()) is not None:
            self._load(plan, StartCause.DEMAND)
        else:
            await self._called.wait()

    async def _live_once(self) -> None:
        """One engine, from what it is to be to what follows its end."""
        plan = self.plan
        if self.aftermath.gpu_wait.was_there:
            plan.expect_gpu()
        ended = await self._fit_and_run(plan)
        if self.stopped.is_set():
            return
        if ended is None or ended.was_dismissed or plan is not self.plan:
            self.aftermath.went_well()
        elif ended.load_error is not None:
            await self.aftermath.not_loaded(ended.load_error, self.limits.missing_gpu)
        else:
            await self.aftermath.died(ended, self._stall)

    async def _fit_and_run(self, plan: Plan) -> Ended | None:
        """None: it was set aside."""
        if plan in self.residents:
            return await self._take_back(plan)
        try:
            if plan.must_be_fitted:
                await self._measure(plan)
        except HomespecError as error:
            return Ended(load_error=error)
        if self.stopped.is_set() or plan is not self.plan:
            return Ended(was_dismissed=True)
        return await self._run_engine(plan)

    async def _measure(self, plan: Plan) -> None:
        """Nothing is loaded meanwhile but residents, so that the readings are those of a box at rest."""
        self._state.detail = "measuring what fits"
        events = await self._events_of_fit(plan)
        if plan is self.plan:
            for text in events:
                self._state.tell("model", text)
            self._state.detail = "starting the engine"

    async def _events_of_fit(self, plan: Plan) -> tuple[str, ...]:
        """Residents stay if the target gets beside them what it would get without."""
        while self.residents:
            with suppress(HomespecError):
                events = await plan.measure(self.stopped)
                if plan.has_all_it_wants or self.stopped.is_set():
                    return events
            if self.residents:
                await self.residents.give_up_oldest(f"{plan.model_id} needs its memory")
        return await plan.measure(self.stopped)

    async def _run_engine(self, plan: Plan) -> Ended | None:
        self._stall = ""
        self.gpu_doubt.engine_started()
        self._state.begin_load(self.course.cause)
        try:
            engine = self.engine = await Engine.start(plan, self.absence.pressure, self._hearing(plan).receive)
        except EngineError as error:
            return Ended(str(error))
        if self.stopped.is_set() or plan is not self.plan:
            engine.dismiss()
        return await self._serve(engine)

    async def _take_back(self, plan: Plan) -> Ended | None:
        """A resident answers again."""
        assert plan.facts is not None
        self._stall = ""
        resident = self.residents.take(plan)
        engine = self.engine = resident.engine
        if resident.counted is not None:
            self._state.ledger.engine_back(resident.counted, time.monotonic())
        hearing = self._hearing(plan)
        engine.take_back(hearing.receive)
        self._state.exactness, self._state.exactness_reason = UNMEASURED
        self._ready(plan.facts)
        if engine.measured is not None:  # perhaps while it was set aside
            hearing.receive(engine.measured)
        return await self._serve(engine)

    def _hearing(self, plan: Plan) -> Hearing:
        return Hearing(plan, self._state, self._requests, self.progress, self._ready)

    async def _serve(self, engine: Engine) -> Ended | None:
        """None: it was set aside."""
        ended = await engine.served()
        if ended is None:
            return None
        self.engine = None
        if ended.was_dismissed and not self.stopped.is_set():
            self.aftermath.fail_requests("was started anew for a new configuration", code="engine_restarted")
        return ended

    def _set_aside(self, engine: Engine) -> None:
        """It has nothing to do, and perhaps there is room for it beside the next one."""
        state = self._state
        self.absence.idle = ""
        self._requests.hold()
        self.residents.add(Resident(engine, state.ledger.snapshot))
        state.ledger.engine_gone()
        self.progress.end()
        self.engine = None
        engine.set_aside()

    def _ready(self, model: ModelStatus) -> None:
        """The engine of the moment may be asked."""
        engine, plan, state = self.engine, self.plan, self._state
        if engine is None or engine.is_dismissed or self.stopped.is_set():
            return
        state.model = plan.facts = model
        state.load_progress = 1.0
        state.enter(Phase.READY, f"ready, {plan.degraded}" if plan.degraded else "ready")
        self.aftermath.gpu_wait.ready(model.devices[0])
        self.course.arrived()
        self.progress.begin(time.monotonic())
        state.tell("engine", f"ready: {model.id}, {model.n_ctx} tokens of context, {model.slots} slots")
        self.on_ready(plan)
        engine.catch_up(self.absence.reason)
        self._requests.serve_from(engine.child, plan)

    # Small steps

    def _load(self, plan: Plan, cause: StartCause) -> None:
        self.course.turn_to(plan, cause)
        if plan not in self.residents:
            plan.want_gpu()
        self._state.load_progress = 0.0
        self._state.enter(Phase.LOADING, f"loading {plan.model_id}")

    def _dismiss(self, engine: Engine) -> None:
        self.absence.idle = ""
        self._requests.hold()
        engine.dismiss()

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopped.wait(), seconds)
