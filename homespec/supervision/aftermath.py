"""What follows the end of an engine: another one, another plan, none until somebody asks, or the end of the daemon."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from homespec.errors import EngineError, ErrorInfo, GpuMissing, HomespecError, ModelUnsupported
from homespec.status import Phase, StartCause
from homespec.supervision.course import Course
from homespec.supervision.engine import Ended
from homespec.supervision.fast_failures import FastFailures
from homespec.supervision.gpu_wait import GpuWait, MissingGpu
from homespec.supervision.plan import Plan
from homespec.supervision.progress import Progress
from homespec.supervision.requests import Requests, unavailable
from homespec.supervision.residents import Residents
from homespec.supervision.state import State
from homespec.supervision.suspicion import suspects


class Aftermath:
    """Of one engine after another."""

    def __init__(
        self,
        course: Course,
        state: State,
        requests: Requests,
        residents: Residents,
        progress: Progress,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self.restarts = 0
        self.last_exit: str | None = None
        self.gpu_wait = GpuWait(state, pause)
        self._course = course
        self._state = state
        self._requests = requests
        self._residents = residents
        self._progress = progress
        self._pause = pause
        self._failures = FastFailures()

    def went_well(self) -> None:
        """It ended because it was told to."""
        self._failures.forget()

    def begin_again(self, reason: str, detail: str) -> None:
        """It ended for this reason, and another one is started in its place."""
        self.restarts += 1
        self.last_exit = reason
        self._course.cause = StartCause.DEATH
        self._state.enter(Phase.RESTARTING, detail)

    async def not_loaded(self, error: HomespecError, rule: MissingGpu) -> None:
        """Raises the error when there is nothing else to serve."""
        error = self._put_down_to_gpu(error)
        # A GPU that is known to be missing says nothing against a new configuration.
        goes_on = self.gpu_wait.is_given_up and await self._may_find_gpu(error, rule)
        if goes_on or self._fall_back(str(error)) or await self._may_find_gpu(error, rule):
            self._failures.forget()
        elif self._may_do_without:
            self._do_without(str(error))
        else:
            self._fail_for_good(str(error), "load_failed")
            raise error

    async def died(self, ended: Ended, stall: str) -> None:
        """Tell, suspect, and wait before the next engine. Raises EngineError when there is no point in one.

        stall: why it was killed; empty: it was not.
        """
        reason = stall or ended.how
        self.begin_again(reason, f"the engine {reason}; starting it again")
        self._state.tell("engine", f"died: {reason}")
        self._suspect_drafters(reason, killed=ended.was_killed and not stall)
        if ended.was_killed:
            self._residents.give_up(f"the engine of {self._plan.model_id} was killed, perhaps for want of memory")
        self.fail_requests(reason, code="engine_died")
        if self._tries_gpu_again and not ended.ready_for_s:
            self.gpu_wait.give_up(
                self._plan, f"the engine {reason} while it loaded the model onto the GPU; {GpuMissing.HELP}"
            )
            return
        self._failures.add(ended.ready_for_s)
        if not self._failures.is_hopeless:
            await self._pause(self._failures.backoff_s)
            return
        times = f"the engine died {self._failures.count} times in a row, last: {reason}"
        self._failures.forget()
        if self._fall_back(times):
            return
        if self._may_do_without:
            self._do_without(times)
            return
        raise self._give_up(f"{times}; see the log above")

    def fail_requests(self, reason: str, *, code: str) -> None:
        """What the engine was at is lost with it; what it had not begun may go to the next one."""
        self._state.ledger.engine_gone()
        self._progress.end()
        self._requests.engine_gone(reason, code=code)

    @property
    def _plan(self) -> Plan:
        return self._course.plan

    def _put_down_to_gpu(self, error: HomespecError) -> HomespecError:
        """A driver that has come back by halves lists a GPU onto which nothing can be loaded any more."""
        facts = self._plan.facts
        was_on_gpu = facts is not None and facts.devices[0] != "CPU" and self._plan.degraded is None
        if (was_on_gpu or self._tries_gpu_again) and isinstance(error, ModelUnsupported):
            return GpuMissing(f"the GPU that was in use does not take the model any more: {error}; {GpuMissing.HELP}")
        return error

    @property
    def _tries_gpu_again(self) -> bool:
        """The CPU had taken its place, and this engine was to have it once more."""
        plan = self._plan
        return self.gpu_wait.is_given_up and plan.degraded is None and plan.settings.n_gpu_layers != 0

    async def _may_find_gpu(self, error: HomespecError, rule: MissingGpu) -> bool:
        if not isinstance(error, GpuMissing):
            return False
        return await self.gpu_wait.is_worth_a_try(self._plan, error, rule)

    @property
    def _may_do_without(self) -> bool:
        return self._state.model is not None and self._course.is_dispensable

    def _do_without(self, why: str) -> None:
        """Whoever asked for this model is told; the next request may try again."""
        text = f"{self._plan.model_id} cannot be loaded: {why}"
        self._requests.fail_all(ErrorInfo(text, 500, "server_error", code="load_failed"), self._plan)
        self._state.enter(Phase.IDLE, text)
        self._state.tell("model", text)

    def _give_up(self, message: str) -> EngineError:
        self._fail_for_good(message, "engine_failed")
        return EngineError(message)

    def _fail_for_good(self, message: str, code: str) -> None:
        self._state.enter(Phase.FAILED, message)
        self._requests.fail_all(unavailable(message, code))

    def _suspect_drafters(self, reason: str, *, killed: bool) -> None:
        """The target comes back without what its death is put down to."""
        snapshot = self._state.ledger.snapshot
        found = suspects(snapshot, reason, killed=killed) if snapshot else {}
        for name, suspicion in found.items():
            self._plan.quarantined[name] = suspicion
            self._state.tell("drafter", f"{name} quarantined: {suspicion}")

    def _fall_back(self, reason: str) -> bool:
        if not self._course.fall_back(reason):
            return False
        self._state.enter(Phase.RESTARTING, f"{reason}; back to the configuration from before")
        self._state.tell("engine", self._state.detail)
        return True
