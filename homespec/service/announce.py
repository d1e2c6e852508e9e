"""What the service manager hears of a running daemon: readiness, one line of state, and signs of life."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from homespec.service.notify import Notifier
from homespec.status import Phase, SpeculationStatus
from homespec.supervision.limits import Limits
from homespec.supervisor import Supervisor

_INTERVAL_S = 0.25
_ANSWERING = (Phase.READY, Phase.IDLE)
"""Requests are answered, after a load if need be."""
_GRACE_S = 10.0
"""The supervisor is to notice a load that hangs before the service manager does."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """What tells a working daemon from one that hangs."""

    phase: Phase
    waited_s: float
    """How long a busy engine has made no progress, or has said nothing at all."""
    unchanged_s: float
    """Since phase, load progress or detail changed."""

    def is_real(self, limits: Limits) -> bool:
        """Whether the watchdog may be told that all is well."""
        match self.phase:
            case Phase.READY:
                return self.waited_s <= limits.stall_timeout_s
            case Phase.LOADING | Phase.RESTARTING:
                return self.unchanged_s <= limits.load_timeout_s + _GRACE_S
            case Phase.IDLE | Phase.STOPPING:
                return True
            case _:
                return False


def status_line(
    phase: Phase,
    detail: str,
    load_progress: float,
    speculation: SpeculationStatus | None,
    degraded: str | None = None,
) -> str:
    """One line for `systemctl status`."""
    if phase is Phase.LOADING:
        return f"{phase}: {detail} ({load_progress:.0%})"
    if phase is not Phase.READY:
        return f"{phase}: {detail}"
    ready = f"degraded, {degraded}" if degraded else "ready"
    if speculation is None:
        return ready
    name = speculation.drafter or "nothing"
    return f"{ready}; drafting with {name}, {speculation.state}: {speculation.reason}"


class Announcer:
    """Looks at the supervisor a few times a second and passes on what is new."""

    def __init__(self, notifier: Notifier, supervisor: Supervisor) -> None:
        self._notifier = notifier
        self._supervisor = supervisor
        self._status = ""
        self._is_ready = False
        self._is_reloading = False
        self._seen: object = None
        self._changed_at = time.monotonic()
        self._next_beat = 0.0

    async def run(self) -> None:
        """Until cancelled. There is no point in it while nobody listens."""
        while True:
            self.step(time.monotonic())
            await asyncio.sleep(_INTERVAL_S)

    def step(self, now: float) -> None:
        """Look once. `now` is a monotonic time in seconds."""
        supervisor = self._supervisor
        seen = (supervisor.phase, supervisor.detail, supervisor.load_progress)
        if seen != self._seen:
            self._seen, self._changed_at = seen, now
            if not self._is_ready and supervisor.phase in (Phase.LOADING, Phase.RESTARTING):
                self._notifier.send(EXTEND_TIMEOUT_USEC=int((supervisor.limits.load_timeout_s + _GRACE_S) * 1e6))
        self._tell_status()
        self._tell_ready()
        self._beat(now)

    def reloading(self) -> None:
        """The configuration is read again. `reloaded` must follow."""
        self._notifier.reloading()
        self._is_reloading, self._is_ready = True, False

    def reloaded(self) -> None:
        """READY=1 follows as soon as requests are answered."""
        self._is_reloading = False

    def stopping(self) -> None:
        self._notifier.send(STOPPING=1, STATUS="stopping")

    def _tell_status(self) -> None:
        supervisor = self._supervisor
        snapshot = supervisor.ledger.snapshot
        line = status_line(
            supervisor.phase,
            supervisor.detail,
            supervisor.load_progress,
            snapshot.speculation if snapshot else None,
            supervisor.degraded,
        )
        if line != self._status:
            self._status = line
            self._notifier.send(STATUS=line)

    def _tell_ready(self) -> None:
        if not self._is_ready and not self._is_reloading and self._supervisor.phase in _ANSWERING:
            self._is_ready = True
            self._notifier.send(READY=1)

    def _beat(self, now: float) -> None:
        watchdog_s = self._notifier.watchdog_s
        if watchdog_s is None or now < self._next_beat:
            return
        pulse = Pulse(self._supervisor.phase, self._supervisor.waited_s, now - self._changed_at)
        if pulse.is_real(self._supervisor.limits):
            self._notifier.send(WATCHDOG=1)
            self._next_beat = now + watchdog_s / 4
