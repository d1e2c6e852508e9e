"""Keeps one engine alive: starts it, watches its progress, restarts it, and carries requests across.

Single writer: everything here runs on the daemon's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass

import msgspec

from homespec import errors
from homespec.child import EngineChild
from homespec.errors import EngineError, ErrorInfo, ModelError, RequestError
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
    Ready,
    Refused,
    SetDrafter,
    Snapshot,
    Text,
    Tokenize,
    Tokens,
    encode,
)
from homespec.job import Job
from homespec.metrics import Ledger
from homespec.status import DraftState, EngineStatus, Event, ModelStatus, Phase, QueueStatus

logger = logging.getLogger("homespec.supervisor")

FIRST_BACKOFF_S = 0.25
MAX_BACKOFF_S = 30.0
MAX_FAST_FAILURES = 5
FAST_FAILURE_S = 60.0
"""An engine that lived longer than this after it was ready has not failed fast."""
QUARANTINE_ROUNDS = 16
"""A drafter that has been through fewer rounds than this when the engine dies is suspected."""
WATCH_INTERVAL_S = 0.25
RETRY_AFTER_S = 5
_KEPT_EVENTS = 50


@dataclass(slots=True)
class _Progress:
    """The decode loop's counter, and since when it stands still with work to do."""

    counter: int = 0
    since: float = 0.0
    busy: bool = False
    heard: float = 0.0

    def beat(self, frame: Heartbeat, now: float) -> None:
        if frame.progress != self.counter or not frame.busy:
            self.since = now
        self.counter, self.busy, self.heard = frame.progress, frame.busy, now


class Supervisor:
    """Owns the engine process and every request in flight."""

    def __init__(self, settings: EngineSettings, *, max_queue: int, stall_timeout_s: float) -> None:
        self._settings = settings
        self._max_queue = max_queue
        self._stall_timeout_s = stall_timeout_s
        self._child: EngineChild | None = None
        self._jobs: dict[str, Job] = {}
        self._progress = _Progress()
        self._restarts = 0
        self._last_exit: str | None = None
        self._quarantined = dict(settings.quarantined)
        self._engine_mode = settings.drafter_mode
        """What the running engine was started with."""
        self._load_error: ModelError | None = None
        self._stopped = asyncio.Event()
        self.phase = Phase.LOADING
        self.detail = "starting the engine"
        self.load_progress = 0.0
        self.model: ModelStatus | None = None
        self.exactness = "distribution"
        self.exactness_reason = "not measured yet"
        self.ledger = Ledger()
        self.events: deque[Event] = deque(maxlen=_KEPT_EVENTS)

    # Requests

    def submit(self, frame: Generate | Tokenize | Detokenize) -> Job:
        """Take a request on. Raises RequestError 503 while loading, when stopping, and when the queue is full; 400 when
        it holds something that cannot cross to the engine.
        """
        self._admit()
        _check_crosses(frame)
        job = Job(frame)
        self._jobs[job.id] = job
        if self._child is not None and self.phase is Phase.READY:
            self._send(self._child, job)
        return job

    def cancel(self, job: Job) -> None:
        """The client is gone. Safe to call for a request that has ended."""
        if self._jobs.pop(job.id, None) is not None and self._child is not None:
            self._child.send(Cancel(job.id))

    def set_drafter(self, mode: str) -> None:
        """Set the process-wide switch; it outlives a restart of the engine."""
        self._settings = msgspec.structs.replace(self._settings, drafter_mode=mode)
        self._tell("drafter", f"drafting switched to {mode!r}")
        self._quarantined.pop(mode, None)  # naming a suspect is asking to try it again
        if self._child is not None and self.phase is Phase.READY:
            self._child.send(SetDrafter(mode))

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

    async def _keep_alive(self) -> None:
        fast_failures = 0
        while not self._stopped.is_set():
            ready_for_s = await self._run_engine()
            if self._load_error is not None:
                self.phase, self.detail = Phase.FAILED, str(self._load_error)
                raise self._load_error
            if self._stopped.is_set():
                return
            fast_failures = 1 if ready_for_s > FAST_FAILURE_S else fast_failures + 1
            if fast_failures > MAX_FAST_FAILURES:
                raise self._give_up(fast_failures)
            await self._back_off(fast_failures)

    async def _run_engine(self) -> float:
        """One engine from start to end; seconds that it was ready for."""
        self._engine_mode = self._settings.drafter_mode
        child = self._child = await EngineChild.start(
            msgspec.structs.replace(self._settings, quarantined=self._quarantined)
        )
        if self._stopped.is_set():
            child.kill()
        ready_at: float | None = None
        try:
            async for frame in child.frames():
                if isinstance(frame, Ready):
                    ready_at = time.monotonic()
                self._receive(frame)
        except EngineError as error:
            logger.error("%s", error)
            child.kill()
        ended = await child.wait()
        self._child = None
        if self._load_error is None and not self._stopped.is_set():
            self._engine_died(ended)
        return time.monotonic() - ready_at if ready_at else 0.0

    def _receive(self, frame: FromEngine) -> None:
        match frame:
            case Delta() | Finished() | Refused() | Tokens() | Text():
                self._answer(frame)
            case Heartbeat():
                self._progress.beat(frame, time.monotonic())
            case Snapshot(snapshot):
                self.ledger.observe(snapshot, time.monotonic())
            case Loading(progress, detail):
                self.load_progress, self.detail = progress, detail
            case Ready(model):
                self._engine_ready(model)
            case Measured(exactness, reason):
                self.exactness, self.exactness_reason = exactness, reason
                self._tell("engine", f"exactness {exactness}: {reason}")
            case LoadFailed(kind, message):
                error_class = getattr(errors, kind, ModelError)
                self._load_error = error_class(message)
            case Happened(kind, text):
                self._tell(kind, text)

    def _answer(self, frame: Delta | Finished | Refused | Tokens | Text) -> None:
        job = self._jobs.get(frame.request_id)
        if job is None:
            return  # cancelled while the answer was on its way
        if not isinstance(frame, Delta):
            del self._jobs[job.id]
        job.put(frame)

    def _engine_ready(self, model: ModelStatus) -> None:
        assert self._child is not None
        self.model = model
        self.load_progress = 1.0
        self.phase, self.detail = Phase.READY, "ready"
        self._progress = _Progress(since=time.monotonic(), heard=time.monotonic())
        self._tell("engine", f"ready: {model.id}, {model.n_ctx} tokens of context, {model.slots} slots")
        if self._settings.drafter_mode != self._engine_mode:  # switched while the engine was loading
            self._child.send(SetDrafter(self._settings.drafter_mode))
        for job in list(self._jobs.values()):
            self._send(self._child, job)

    def _engine_died(self, ended: str) -> None:
        stalled = self.phase is Phase.STALLED
        reason = f"stalled for {self._stall_timeout_s:g} s" if stalled else ended
        self._last_exit = reason
        self._restarts += 1
        self.phase, self.detail = Phase.RESTARTING, f"the engine {reason}; starting it again"
        self._tell("engine", f"died: {reason}")
        self._suspect_drafter(reason)
        self.ledger.engine_gone()
        self._progress = _Progress()
        for job in list(self._jobs.values()):
            if job.has_sent or job.times_sent > 1:
                del self._jobs[job.id]
                job.fail(
                    ErrorInfo(
                        f"the engine {reason} in the middle of this answer; send the request again",
                        500,
                        "server_error",
                        code="engine_died",
                    )
                )

    @staticmethod
    def _send(child: EngineChild, job: Job) -> None:
        job.times_sent += 1
        child.send(job.frame)

    def _suspect_drafter(self, reason: str) -> None:
        """A death while a model drafter was loading or new is put down to it: the target comes back without."""
        snapshot = self.ledger.snapshot
        if snapshot is None:
            return
        for drafter in snapshot.speculation.drafters:
            if drafter.path is None:
                continue
            stats = snapshot.speculation.totals.get(drafter.name)
            is_new = drafter.state is DraftState.READY and (stats is None or stats.num_drafts < QUARANTINE_ROUNDS)
            if drafter.state is DraftState.LOADING or is_new:
                self._quarantined[drafter.name] = f"crashed: the engine {reason} while {drafter.path} was new"
                self._tell("drafter", f"{drafter.name} quarantined: {self._quarantined[drafter.name]}")

    def _give_up(self, fast_failures: int) -> EngineError:
        message = f"the engine died {fast_failures} times in a row, last: {self._last_exit}; see the log above"
        self.phase, self.detail = Phase.FAILED, message
        self._fail_jobs(message, code="engine_failed")
        return EngineError(message)

    async def _back_off(self, fast_failures: int) -> None:
        delay = min(FIRST_BACKOFF_S * 2 ** (fast_failures - 1), MAX_BACKOFF_S)
        try:
            await asyncio.wait_for(self._stopped.wait(), delay)
        except TimeoutError:
            return

    async def _watch(self) -> None:
        """Kill an engine whose decode loop makes no progress, or that does not speak at all."""
        while True:
            await asyncio.sleep(WATCH_INTERVAL_S)
            if self._child is None or self.phase is not Phase.READY:
                continue
            now = time.monotonic()
            progress = self._progress
            waited = max(now - progress.since if progress.busy else 0.0, now - progress.heard)
            if waited > self._stall_timeout_s:
                self.phase, self.detail = Phase.STALLED, f"no progress for {waited:.0f} s; killing the engine"
                self._tell("engine", self.detail)
                self._child.kill()

    def _admit(self) -> None:
        if self.phase in (Phase.STOPPING, Phase.FAILED):
            raise RequestError.of(_unavailable(self.detail, str(self.phase)))
        if self.phase is Phase.LOADING:
            message = f"the model is loading ({self.load_progress:.0%}); try again in a moment"
            raise RequestError.of(_unavailable(message, "loading"))
        limit = self._settings.slots + self._max_queue
        if len(self._jobs) >= limit:
            message = (
                f"{len(self._jobs)} requests are in flight and the limit is {limit} ({self._settings.slots} slots and "
                f"{self._max_queue} waiting); try again later"
            )
            raise RequestError.of(_unavailable(message, "queue_full"))

    def _fail_jobs(self, message: str, *, code: str) -> None:
        error = _unavailable(message, code)
        for job in self._jobs.values():
            job.fail(error)
        self._jobs.clear()

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
