"""Keeps one engine alive: starts it, watches its progress, restarts it, and carries requests across.

Single writer: everything here runs on the daemon's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import msgspec

from homespec import errors
from homespec.child import KILLED, EngineChild
from homespec.errors import EngineError, ErrorInfo, GpuMissing, HomespecError, ModelError, RequestError
from homespec.fair_queue import FairQueue
from homespec.footprint import Fitted, Footprint
from homespec.frames import (
    Cancel,
    Delta,
    Detokenize,
    EngineSettings,
    Finished,
    Frame,
    FromEngine,
    Generate,
    Happened,
    Heartbeat,
    LoadFailed,
    Loading,
    Measured,
    Noted,
    Readmit,
    Ready,
    Refused,
    SetDrafter,
    Snapshot,
    Text,
    Tokenize,
    Tokens,
    Withdraw,
    encode,
)
from homespec.job import Job
from homespec.metrics import Ledger
from homespec.progress import Progress
from homespec.status import (
    EngineSnapshot,
    EngineStatus,
    Event,
    ModelStatus,
    Phase,
    QueueStatus,
    RequestStatus,
)
from homespec.suspicion import suspects

logger = logging.getLogger("homespec.supervisor")

FIRST_BACKOFF_S = 0.25
MAX_BACKOFF_S = 30.0
MAX_FAST_FAILURES = 5
FAST_FAILURE_S = 60.0
"""An engine that lived longer than this after it was ready has not failed fast."""
WATCH_INTERVAL_S = 0.25
GPU_RETRY_S = 2.0
RETRY_AFTER_S = 5
_KEPT_EVENTS = 50


@dataclass(frozen=True, slots=True)
class MissingGpu:
    """What to do when a GPU that was asked for is not there."""

    wait_s: float
    """How long it is looked for again."""
    then: Literal["fail", "cpu"]


Fit = Callable[[EngineSettings], Awaitable[Fitted]]


@dataclass(frozen=True, slots=True)
class _Before:
    """What to come back to when a restart with other settings fails."""

    asked: EngineSettings
    settings: EngineSettings
    fit: Fit | None
    is_fitted: bool
    degraded: str | None


class Supervisor:
    """Owns the engine process and every request in flight."""

    def __init__(
        self,
        settings: EngineSettings,
        *,
        max_queue: int,
        stall_timeout_s: float,
        queue_timeout_s: float = math.inf,
        missing_gpu: MissingGpu | None = None,
        fit: Fit | None = None,
    ) -> None:
        """`missing_gpu`: what to do while a GPU that was asked for is not there; None: fail at once.
        `fit` turns the settings into ones that fit the box, before an engine starts with them.
        """
        self._asked = settings
        self._settings = settings
        """What was asked for, as it fits, and as it was switched since."""
        self._fit = fit
        self._is_fitted = False
        self._estimate: Footprint | None = None
        self._max_queue = max_queue
        self._queue_timeout_s = queue_timeout_s
        self._stall_timeout_s = stall_timeout_s
        self._child: EngineChild | None = None
        self._jobs: dict[str, Job] = {}
        """Everything that has not been answered."""
        self._queue = FairQueue()
        """Those of them that the engine has not been given yet."""
        self._progress = Progress()
        self._restarts = 0
        self._last_exit: str | None = None
        self._quarantined = dict(settings.quarantined)
        self._started_with = settings
        """What the running engine was started with."""
        self._broke_protocol = False
        self._load_error: HomespecError | None = None
        self._before: _Before | None = None
        """Of the engine that a restart on purpose took down, until the next one is ready."""
        self._missing_gpu = missing_gpu or MissingGpu(wait_s=0, then="fail")
        self._gpu_missed_at: float | None = None
        self._degraded: str | None = None
        """Why the target runs on less than was asked for."""
        self._is_replacing = False
        """The engine that runs is to end, because another is to take its place."""
        self._restarted: asyncio.Future[str | None] | None = None
        self._stopped = asyncio.Event()
        self.phase = Phase.LOADING
        self.detail = "starting the engine"
        self.load_progress = 0.0
        self.model: ModelStatus | None = None
        self.exactness = "distribution"
        self.exactness_reason = "not measured yet"
        self.ledger = Ledger()
        self.started_at = time.monotonic()
        self.events: deque[Event] = deque(maxlen=_KEPT_EVENTS)

    # Requests

    def submit(self, frame: Generate | Tokenize | Detokenize, *, client: str = "") -> Job:
        """Take a request on. Raises RequestError 503 while loading, when stopping, and when the queue is full; 400 when
        it holds something that cannot cross to the engine.
        """
        self._admit(client)
        _check_crosses(frame)
        job = Job(frame, client=client)
        self._jobs[job.id] = job
        if isinstance(frame, Generate):
            self._queue.put(job)
            self._feed()
        elif self._child is not None and self.phase is Phase.READY:
            self._send(self._child, job)  # needs no slot
        return job

    def cancel(self, job: Job) -> None:
        """The client is gone. Safe to call for a request that has ended."""
        if self._jobs.pop(job.id, None) is None:
            return
        if not self._queue.remove(job) and self._child is not None:
            self._child.send(Cancel(job.id))
        self._feed()

    def set_drafter(self, mode: str) -> None:
        """Set the process-wide switch; it outlives a restart of the engine."""
        self._settings = msgspec.structs.replace(self._settings, drafter_mode=mode)
        self._tell("drafter", f"drafting switched to {mode!r}")
        self._quarantined.pop(mode, None)  # naming a suspect is asking to try it again
        if self._child is not None and self.phase is Phase.READY:
            self._child.send(SetDrafter(mode))

    def withdraw(self, reason: str) -> None:
        """Have every drafter with memory of its own unloaded; it stays out, restarts included, until `readmit`."""
        self._settings = msgspec.structs.replace(self._settings, withdrawn=reason)
        self._tell("drafter", reason)
        if self._child is not None and self.phase is Phase.READY:
            self._child.send(Withdraw(reason))

    def readmit(self, reason: str) -> None:
        """Drafters with memory of their own may be loaded again."""
        self._settings = msgspec.structs.replace(self._settings, withdrawn="")
        self._tell("drafter", reason)
        if self._child is not None and self.phase is Phase.READY:
            self._child.send(Readmit())

    def set_limits(
        self,
        *,
        max_queue: int,
        stall_timeout_s: float,
        queue_timeout_s: float,
        missing_gpu: MissingGpu,
        fit: Fit | None,
    ) -> None:
        """Take new limits; what runs is not touched."""
        self._max_queue, self._queue_timeout_s = max_queue, queue_timeout_s
        self._stall_timeout_s, self._missing_gpu, self._fit = stall_timeout_s, missing_gpu, fit

    async def restart(self, settings: EngineSettings, fit: Fit | None = None) -> str | None:
        """Start the engine anew with other settings, made to fit by `fit`; requests that have sent nothing move over to
        it. When it cannot load what it is told to, the settings from before come back, and the reason is returned.
        """
        self._before = self._before or _Before(self._asked, self._settings, self._fit, self._is_fitted, self._degraded)
        # Memory is as short as it was: what is withdrawn stays so.
        self._settings = msgspec.structs.replace(settings, withdrawn=self._settings.withdrawn)
        self._asked, self._fit, self._is_fitted, self._estimate = settings, fit, False, None
        self._quarantined = dict(settings.quarantined)
        self._is_replacing, self._degraded, self._gpu_missed_at = True, None, None
        self._restarted = asyncio.get_running_loop().create_future()
        self.phase, self.detail = Phase.RESTARTING, "starting the engine with a new configuration"
        if self._child is not None:
            await self._child.stop()
        return await self._restarted

    def note(self, text: str) -> None:
        """An event of the daemon itself, for the log and /status."""
        self._tell("daemon", text)

    @property
    def stall_timeout_s(self) -> float:
        return self._stall_timeout_s

    @property
    def waited_s(self) -> float:
        """Seconds that a busy engine has made no progress, or that an engine has not spoken."""
        return self._progress.waited_s(time.monotonic())

    @property
    def stopping(self) -> asyncio.Event:
        """Set once the daemon ends: open streams must end too."""
        return self._stopped

    def engine_status(self) -> EngineStatus:
        progress = self._progress
        return EngineStatus(
            pid=self._child.pid if self._child else None,
            restarts=self._restarts,
            last_exit=self._last_exit,
            progress=progress.counter,
            progress_age_s=time.monotonic() - progress.since if progress.busy else None,
        )

    def waiting(self) -> tuple[RequestStatus, ...]:
        """Requests that the engine does not know yet."""
        now = time.monotonic()
        return tuple(RequestStatus.waiting(job.id, age_s=now - job.received_at) for job in self._queue.jobs())

    def queue_status(self) -> QueueStatus:
        running = min(len(self._jobs), self._settings.slots)
        return QueueStatus(running=running, waiting=len(self._jobs) - running, limit=self._max_queue)

    # Life

    async def run(self) -> None:
        """Until `stop`. Raises ModelError when the target cannot be loaded, EngineError when it keeps dying."""
        watch = asyncio.create_task(self._watch())
        try:
            await self._keep_alive()
        finally:
            watch.cancel()

    async def stop(self) -> None:
        """End all requests with an error, then the engine."""
        self.phase, self.detail = Phase.STOPPING, "shutting down"
        self._stopped.set()
        self._fail_jobs("homespec is shutting down", code="shutting_down")
        if self._child is not None:
            await self._child.stop()

    def kill(self) -> None:
        """End the engine at once."""
        if self._child is not None:
            self._child.kill()

    async def _fit_to_box(self, fit: Fit) -> None:
        """Nothing is loaded meanwhile, so that the readings are those of a box at rest."""
        self.detail = "measuring what fits"
        fitting = asyncio.ensure_future(fit(self._asked))
        stopping = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({fitting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not fitting.done():
            fitting.cancel()
            await asyncio.wait({fitting})
            return
        try:
            fitted = fitting.result()
        except HomespecError as error:
            self._load_error = error
            return
        if self._is_replacing:
            return  # other settings were asked for meanwhile
        # The switches may have been turned meanwhile.
        now = self._settings
        self._settings = msgspec.structs.replace(
            fitted.settings, drafter_mode=now.drafter_mode, withdrawn=now.withdrawn
        )
        self._is_fitted = True
        self._estimate = fitted.target
        for text in fitted.events:
            self._tell("model", text)
        self.detail = "starting the engine"

    async def _keep_alive(self) -> None:
        fast_failures = 0
        while not self._stopped.is_set():
            self._is_replacing = False
            ready_for_s = await self._fit_and_run()
            if self._is_replacing and not self._stopped.is_set():
                fast_failures, self._load_error = 0, None
                continue
            if self._load_error is not None and self._fall_back(str(self._load_error)):
                fast_failures, self._load_error = 0, None
                continue
            if isinstance(self._load_error, GpuMissing) and await self._wait_for_gpu(self._load_error):
                fast_failures, self._load_error = 0, None
                continue
            if self._load_error is not None:
                self.phase, self.detail = Phase.FAILED, str(self._load_error)
                raise self._load_error
            if self._stopped.is_set():
                return
            fast_failures = 1 if ready_for_s > FAST_FAILURE_S else fast_failures + 1
            if fast_failures > MAX_FAST_FAILURES:
                if not self._fall_back(f"the engine died {fast_failures} times in a row, last: {self._last_exit}"):
                    raise self._give_up(fast_failures)
                fast_failures = 0
                continue
            await self._back_off(fast_failures)

    async def _wait_for_gpu(self, error: GpuMissing) -> bool:
        """Drivers come up late at boot and after a suspend. Whether another engine is worth a try: with the GPU while
        there is time, then without it when that is what to do.
        """
        now = time.monotonic()
        self._gpu_missed_at = self._gpu_missed_at or now
        left_s = self._gpu_missed_at + self._missing_gpu.wait_s - now
        if left_s > 0:
            self.detail = f"{error}; waiting for it for {left_s:.0f} s more"
            self._tell("engine", self.detail)
            self._is_fitted = False  # what fits without a GPU says nothing
            await self._pause(min(GPU_RETRY_S, left_s))
            return not self._stopped.is_set()
        if self._missing_gpu.then == "fail":
            return False
        self._asked = msgspec.structs.replace(self._asked, n_gpu_layers=0)
        self._degraded = f"on the CPU: {error} within {self._missing_gpu.wait_s:g} s"
        logger.warning("degraded, %s", self._degraded)
        self._tell("engine", f"degraded, {self._degraded}")
        self._settings = msgspec.structs.replace(self._settings, n_gpu_layers=0)
        self._is_fitted = False
        return True

    async def _fit_and_run(self) -> float:
        """One engine with settings that fit; seconds that it was ready for."""
        if self._fit is not None and not self._is_fitted:
            await self._fit_to_box(self._fit)
        if self._load_error is not None or self._is_replacing or self._stopped.is_set():
            return 0.0
        return await self._run_engine()

    async def _run_engine(self) -> float:
        """One engine from start to end; seconds that it was ready for."""
        self._started_with = msgspec.structs.replace(self._settings, quarantined=dict(self._quarantined))
        child = self._child = await EngineChild.start(self._started_with)
        if self._stopped.is_set() or self._is_replacing:
            child.kill()
        self._broke_protocol = False
        ready_at: float | None = None
        try:
            async for frame in child.frames():
                if isinstance(frame, Ready):
                    ready_at = time.monotonic()
                self._receive(frame)
        except EngineError as error:
            logger.error("%s", error)
            self._broke_protocol = True
            child.kill()
        ended = await child.wait()
        self._child = None
        if self._load_error is None and not self._stopped.is_set():
            if self._is_replacing:
                self._engine_gone("was started anew for a new configuration", code="engine_restarted")
            else:
                self._engine_died(ended)
        return time.monotonic() - ready_at if ready_at else 0.0

    def _receive(self, frame: FromEngine) -> None:
        match frame:
            case Delta() | Finished() | Refused() | Tokens() | Text():
                self._answer(frame)
            case Noted(request_id, notices):
                if (noted := self._jobs.get(request_id)) is not None:
                    noted.notices = notices
            case Heartbeat():
                self._progress.beat(frame, time.monotonic())
            case Snapshot(snapshot):
                self.ledger.observe(snapshot, time.monotonic())
                self._reconcile(snapshot)
            case Loading(progress, detail):
                self.load_progress, self.detail = progress, detail
            case Ready(model):
                if not self._is_replacing:
                    self._engine_ready(model)
            case Measured(exactness, reason):
                self.exactness, self.exactness_reason = exactness, reason
                self._tell("engine", f"exactness {exactness}: {reason}")
            case LoadFailed(kind, message):
                error_class = getattr(errors, kind, ModelError)
                self._load_error = error_class(message)
            case Happened(kind, text):
                self._tell(kind, text)

    def _reconcile(self, snapshot: EngineSnapshot) -> None:
        """Say so once when the estimate was wrong."""
        estimate, self._estimate = self._estimate, None
        if estimate is not None and (difference := estimate.disagreement(snapshot.target_memory)):
            self._tell("model", f"memory of {self._settings.model_id}: {difference}")

    def _answer(self, frame: Delta | Finished | Refused | Tokens | Text) -> None:
        job = self._jobs.get(frame.request_id)
        if job is None:
            return  # cancelled while the answer was on its way
        if not isinstance(frame, Delta):
            del self._jobs[job.id]
            self._feed()
        job.put(frame)

    def _engine_ready(self, model: ModelStatus) -> None:
        assert self._child is not None
        self.model = model
        self.load_progress = 1.0
        self.phase, self.detail = Phase.READY, f"ready, {self._degraded}" if self._degraded else "ready"
        self._gpu_missed_at = None
        self._before = None
        self._finish_restart(None)
        self._progress = Progress(since=time.monotonic(), heard=time.monotonic())
        self._tell("engine", f"ready: {model.id}, {model.n_ctx} tokens of context, {model.slots} slots")
        self._catch_up(self._child)
        waiting = set(self._queue.jobs())
        for job in self._jobs.values():
            if job not in waiting:  # the engine before this one has lost them
                self._send(self._child, job)
        self._feed()

    def _catch_up(self, child: EngineChild) -> None:
        """Tell an engine what has changed while it was loading."""
        now, then = self._settings, self._started_with
        if now.withdrawn != then.withdrawn:
            child.send(Withdraw(now.withdrawn) if now.withdrawn else Readmit())
        if now.drafter_mode != then.drafter_mode or self._quarantined != then.quarantined:
            child.send(SetDrafter(now.drafter_mode))

    def _engine_died(self, ended: str) -> None:
        stalled = self.phase is Phase.STALLED
        reason = f"stalled for {self._stall_timeout_s:g} s" if stalled else ended
        self._last_exit = reason
        self._restarts += 1
        self.phase, self.detail = Phase.RESTARTING, f"the engine {reason}; starting it again"
        self._tell("engine", f"died: {reason}")
        self._suspect_drafters(reason, killed=ended == KILLED and not stalled and not self._broke_protocol)
        self._engine_gone(reason, code="engine_died")

    def _engine_gone(self, reason: str, *, code: str) -> None:
        """End the answers that cannot move to the next engine."""
        self.ledger.engine_gone()
        self._progress = Progress()
        for job in list(self._jobs.values()):
            if job.has_sent or job.times_sent > 1:
                del self._jobs[job.id]
                message = f"the engine {reason} in the middle of this answer; send the request again"
                job.fail(ErrorInfo(message, 500, "server_error", code=code))

    def _fall_back(self, reason: str) -> bool:
        """After a failed restart on purpose: the settings from before, and True."""
        if self._before is None:
            return False
        before, self._before = self._before, None
        self._asked, self._fit, self._is_fitted = before.asked, before.fit, before.is_fitted
        self._degraded = before.degraded
        self._settings = msgspec.structs.replace(before.settings, withdrawn=self._settings.withdrawn)
        self._quarantined = dict(self._settings.quarantined)
        self.phase, self.detail = Phase.RESTARTING, f"{reason}; back to the configuration from before"
        self._tell("engine", self.detail)
        self._finish_restart(reason)
        return True

    def _finish_restart(self, reason: str | None) -> None:
        if self._restarted is not None and not self._restarted.done():
            self._restarted.set_result(reason)
        self._restarted = None

    def _feed(self) -> None:
        """Give the engine as many requests as it runs at a time."""
        if self._child is None or self.phase is not Phase.READY:
            return
        num_generations = sum(isinstance(job.frame, Generate) for job in self._jobs.values())
        room = self._settings.slots - (num_generations - len(self._queue))
        while room > 0 and (job := self._queue.pop()) is not None:
            self._send(self._child, job)
            room -= 1

    def _drop(self, job: Job, error: ErrorInfo) -> None:
        """Refuse a request that waits."""
        self._queue.remove(job)
        del self._jobs[job.id]
        job.fail(error)

    @staticmethod
    def _send(child: EngineChild, job: Job) -> None:
        job.times_sent += 1
        child.send(job.frame)

    def _suspect_drafters(self, reason: str, *, killed: bool) -> None:
        """The target comes back without what its death is put down to."""
        found = suspects(self.ledger.snapshot, reason, killed=killed) if self.ledger.snapshot else {}
        for name, suspicion in found.items():
            self._quarantined[name] = suspicion
            self._tell("drafter", f"{name} quarantined: {suspicion}")

    def _give_up(self, fast_failures: int) -> EngineError:
        message = f"the engine died {fast_failures} times in a row, last: {self._last_exit}; see the log above"
        self.phase, self.detail = Phase.FAILED, message
        self._fail_jobs(message, code="engine_failed")
        return EngineError(message)

    async def _back_off(self, fast_failures: int) -> None:
        await self._pause(min(FIRST_BACKOFF_S * 2 ** (fast_failures - 1), MAX_BACKOFF_S))

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until the end."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)

    async def _watch(self) -> None:
        """Kill an engine whose decode loop makes no progress, or that does not speak at all."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            self._drop_overdue()
            if self._child is None or self.phase is not Phase.READY:
                continue
            waited = self.waited_s
            if waited > self._stall_timeout_s:
                self.phase, self.detail = Phase.STALLED, f"no progress for {waited:.0f} s; killing the engine"
                self._tell("engine", self.detail)
                self._child.kill()

    def _drop_overdue(self) -> None:
        for job in self._queue.waiting_since(time.monotonic() - self._queue_timeout_s):
            message = f"the request has waited {self._queue_timeout_s:g} s for a slot; try again later"
            self._drop(job, _unavailable(message, "queue_timeout"))

    def check_open(self) -> None:
        """Raises RequestError 503 while no request can be taken on, whatever it asks."""
        if self.phase in (Phase.STOPPING, Phase.FAILED):
            raise RequestError.of(_unavailable(self.detail, str(self.phase)))
        if self.phase is Phase.LOADING:
            message = f"the model is loading ({self.load_progress:.0%}); try again in a moment"
            raise RequestError.of(_unavailable(message, "loading"))

    def _admit(self, client: str) -> None:
        self.check_open()
        limit = self._settings.slots + self._max_queue
        if len(self._jobs) >= limit:
            message = (
                f"{len(self._jobs)} requests are in flight and the limit is {limit} ({self._settings.slots} slots and "
                f"{self._max_queue} waiting); try again later"
            )
            full = _unavailable(message, "queue_full")
            newest = self._queue.make_room_for(client)
            if newest is None:
                raise RequestError.of(full)
            self._drop(newest, full)

    def _fail_jobs(self, message: str, *, code: str) -> None:
        error = _unavailable(message, code)
        for job in self._jobs.values():
            job.fail(error)
        self._jobs.clear()
        self._queue = FairQueue()

    def _tell(self, kind: str, text: str) -> None:
        logger.info("%s %s", kind, text)
        self.events.append(Event(time.time(), kind, text))


def _unavailable(message: str, code: str) -> ErrorInfo:
    """The daemon cannot serve this now, but may soon."""
    return ErrorInfo(message, 503, "server_error", code=code, retry_after_s=RETRY_AFTER_S)


def _check_crosses(frame: Frame) -> None:
    """A frame that does not encode must be refused before it is kept for a replay."""
    try:
        encode(frame)
    except (OverflowError, RecursionError, EngineError) as error:
        raise RequestError(f"the request cannot be passed to the engine: {error}") from error
