"""Every request that has not been answered: those that the engine has, and those that wait for their turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from homespec.errors import EngineError, ErrorInfo, RequestError
from homespec.frames import Answer, Cancel, Delta, Frame, Request
from homespec.link import encode
from homespec.status import FirstTokenStatus, QueueStatus, RequestStatus
from homespec.supervision.fair_queue import FairQueue
from homespec.supervision.first_token import FirstTokenTimes
from homespec.supervision.job import Job
from homespec.supervision.limits import Limits
from homespec.supervision.plan import Plan
from homespec.supervision.rotation import Turn, first_in_line
from homespec.wire.responses import is_same_request

RETRY_AFTER_S = 5
CANCELLED = ErrorInfo(
    # nginx's status for a request without a client: other ones are sent again by clients of their own accord.
    "this request was cancelled on the server",
    499,
    "request_cancelled_error",
    code="cancelled",
)


class Sink(Protocol):
    """Where an engine takes its frames."""

    def send(self, frame: Frame) -> None: ...


class Requests:
    """Carries them to the engine, and across from one engine to the next."""

    def __init__(self, limits: Limits, *, slots: int) -> None:
        self.limits = limits
        self.slots = slots
        """Generations that the engine runs at a time."""
        self.on_change: Callable[[], None] = lambda: None
        """Called after a request has come or gone."""
        self._used_at = time.monotonic()
        self._jobs: dict[str, Job] = {}
        self._queue = FairQueue()
        """Those of them that the engine has not been given yet."""
        self._engine: Sink | None = None
        self._turn: Turn | None = None
        self._first_token_times = FirstTokenTimes()

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def idle_s(self) -> float:
        """Seconds since a request came or went."""
        return time.monotonic() - self._used_at

    def take(self, frame: Request, plan: Plan, *, client: str) -> Job:
        """Take a request on, to be answered by the model of `plan`. Raises RequestError 503 when the queue is full; 400
        when it holds something that cannot cross to the engine.
        """
        _check_crosses(frame)  # first: nobody makes room for a request that is refused
        self._make_room(client)
        job = Job(frame, plan, client=client)
        self._jobs[job.id] = job
        self._queue.put(job)
        self._changed()
        return job

    def cancel(self, job: Job) -> None:
        """The client is gone. Safe to call for a request that has ended."""
        if self._jobs.pop(job.id, None) is None:
            return
        if not self._queue.remove(job) and self._engine is not None:
            self._engine.send(Cancel(job.id))
        self._changed()

    def end(self, request_id: str) -> int:
        """End a request and all its choices, and tell its client; how many were ended."""
        if request_id not in self._jobs:
            return 0
        jobs = [job for job in self._jobs.values() if is_same_request(job.id, request_id)]
        for job in jobs:
            self.cancel(job)
            job.fail(CANCELLED)
        return len(jobs)

    def serve_from(self, engine: Sink, plan: Plan) -> None:
        """An engine is ready: it gets as much as it runs at a time."""
        self._engine = engine
        self._turn = Turn(plan, time.monotonic(), self.limits.turn_s)
        self._changed()

    def hold(self) -> None:
        """There is no engine to give requests to."""
        self._engine = self._turn = None

    def answer(self, frame: Answer) -> None:
        job = self._jobs.get(frame.request_id)
        if job is None:
            return  # cancelled while the answer was on its way
        had_begun = job.time_to_first_token_s is not None
        job.put(frame)
        if not had_begun and job.time_to_first_token_s is not None:
            self._first_token_times.add(job.time_to_first_token_s)
        if not isinstance(frame, Delta):
            del self._jobs[job.id]
            self._changed()

    def note(self, request_id: str, notices: tuple[str, ...]) -> None:
        if (job := self._jobs.get(request_id)) is not None:
            job.notices = notices

    def engine_gone(self, reason: str, *, code: str) -> None:
        """End the answers that cannot move to the next engine; the others wait for it, in front."""
        self.hold()
        waiting = set(self._queue.jobs())
        for job in reversed([job for job in self._jobs.values() if job not in waiting]):
            if job.has_sent or job.times_sent > 1:
                message = f"the engine {reason} in the middle of this answer; send the request again"
                self._fail(job, ErrorInfo(message, 500, "server_error", code=code))
            else:
                self._queue.put_back(job)

    def move(self, old: Plan, new: Plan) -> None:
        """What was to be answered by one model is to be answered by another."""
        for job in self._jobs.values():
            if job.plan is old:
                job.plan = new

    def next_plan(self) -> Plan | None:
        """The model that is to be loaded in place of the present one, or of none; None: no other."""
        waiting = self._queue.jobs()
        if self._turn is None:
            return first_in_line(waiting)
        return self._turn.successor(waiting, time.monotonic(), num_running=len(self._jobs) - len(waiting))

    def fail_all(self, error: ErrorInfo, plan: Plan | None = None) -> None:
        """Of one model, or every request."""
        for job in list(self._jobs.values()):
            if plan is None or job.plan is plan:
                self._fail(job, error)

    def drop_overdue(self, now: float) -> None:
        """Refuse what has waited too long for a slot. `now` is a monotonic time in seconds."""
        for job in self._queue.waiting_since(now - self.limits.queue_timeout_s):
            message = f"the request has waited {self.limits.queue_timeout_s:g} s for a slot; try again later"
            self._fail(job, unavailable(message, "queue_timeout"))

    def waiting(self) -> tuple[RequestStatus, ...]:
        """Requests that the engine does not know yet."""
        now = time.monotonic()
        return tuple(RequestStatus.waiting(job.id, age_s=now - job.received_at) for job in self._queue.jobs())

    def num_waiting(self, plan: Plan) -> int:
        return sum(job.plan is plan for job in self._queue.jobs())

    def status(self) -> QueueStatus:
        waiting = len(self._queue)
        return QueueStatus(running=len(self._jobs) - waiting, waiting=waiting, limit=self.limits.max_queue)

    def first_token_status(self) -> FirstTokenStatus:
        return self._first_token_times.status()

    def _changed(self) -> None:
        self._used_at = time.monotonic()
        self._feed()
        self.on_change()

    def _feed(self) -> None:
        """Give the engine as many requests as it runs at a time."""
        if self._engine is None or self._turn is None or not self._queue:
            return
        waiting = self._queue.jobs()
        last_call = self._turn.last_call(waiting, time.monotonic())
        room = self.slots + sum(job.needs_slot for job in waiting) - sum(job.needs_slot for job in self._jobs.values())
        plan = self._turn.plan

        def may_start(job: Job) -> bool:
            return job.plan is plan and job.received_at <= last_call and (room > 0 or not job.needs_slot)

        while (job := self._queue.pop(may_start)) is not None:
            room -= job.needs_slot
            job.times_sent += 1
            self._engine.send(job.frame)

    def _make_room(self, client: str) -> None:
        limit = self.slots + self.limits.max_queue
        if len(self._jobs) < limit:
            return
        message = (
            f"{len(self._jobs)} requests are in flight and the limit is {limit} ({self.slots} slots and "
            f"{self.limits.max_queue} waiting); try again later"
        )
        full = unavailable(message, "queue_full")
        newest = self._queue.make_room_for(client)
        if newest is None:
            raise RequestError.of(full)
        self._fail(newest, full)

    def _fail(self, job: Job, error: ErrorInfo) -> None:
        self._queue.remove(job)
        del self._jobs[job.id]
        job.fail(error)


def unavailable(message: str, code: str) -> ErrorInfo:
    """The daemon cannot serve this now, but may soon."""
    return ErrorInfo(message, 503, "server_error", code=code, retry_after_s=RETRY_AFTER_S)


def _check_crosses(frame: Frame) -> None:
    """A frame that does not encode must be refused before it is kept for a replay."""
    try:
        encode(frame)
    except (OverflowError, RecursionError, EngineError) as error:
        raise RequestError(f"the request cannot be passed to the engine: {error}") from error
