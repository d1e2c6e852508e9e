"""Watches memory off the request path, and has the drafter go before the target pays.

Runs on the daemon's event loop: what it reads are files of the kernel that answer at once, and the last words of the
NVML process. Decisions are made in `policy`; this is where they take effect.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from homespec.frames import Admit, EngineSettings
from homespec.headroom.levels import held, observe, pool_status
from homespec.headroom.marks import WantedMarks
from homespec.headroom.policy import Change, Observation, Policy, State, pause_s, shortage, why_out
from homespec.headroom.probe import Probe, Readings, mapped_bytes
from homespec.headroom.reconsider import Reconsider, SecondLook
from homespec.headroom.waiting import Waiting
from homespec.ledger import Ledger
from homespec.status import (
    Cause,
    DraftState,
    EngineSnapshot,
    EngineStatus,
    ModelMemory,
    MonitorStatus,
    Phase,
    PoolStatus,
    ResidentStatus,
    Transition,
    Watch,
)
from homespec.steady import Steady
from homespec.units import format_bytes, format_duration

logger = logging.getLogger("homespec.headroom")

_KEPT_TRANSITIONS = 10
_PRESENT = (DraftState.LOADING, DraftState.READY)


class Engine(Protocol):
    """What the monitor sees of the engine, and does to it."""

    @property
    def phase(self) -> Phase: ...

    @property
    def ledger(self) -> Ledger: ...

    def engine_status(self) -> EngineStatus: ...

    @property
    def settings(self) -> EngineSettings: ...

    def residents(self) -> Sequence[ResidentStatus]: ...

    def give_up_residents(self, reason: str) -> None: ...

    def doubt_gpu(self, reason: str) -> None: ...

    def withdraw(self, reason: str) -> None: ...

    def readmit(self, reason: str) -> None: ...

    def admit(self, way: Admit, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Watching:
    """How memory is watched."""

    probe: Probe
    policy: Policy
    marks: WantedMarks
    poll_s: float
    maps_target: bool
    """The target is mapped, and decoded from where it is mapped unless a device holds it."""
    reconsider: Reconsider
    """Asks the gate again about a drafter that it has refused."""


class Monitor:
    """One per daemon."""

    def __init__(self, engine: Engine, how: Watching) -> None:
        self._engine = engine
        self._how = how
        self._state = State()
        self._asked = False
        self._readings: Readings | None = None
        self._drafter = ModelMemory()
        """What the drafter holds, or held when it was last loaded."""
        self._waiting = Waiting(engine, self._how_to_reconsider, lambda change: self._record(Watch.ADMITTED, change))
        self._pause_s = how.poll_s
        self._reason = ""
        self._steady = Steady(logger, "reading memory")
        self._counts = dict.fromkeys(Cause, 0)
        self._transitions: deque[Transition] = deque(maxlen=_KEPT_TRANSITIONS)
        self.pools: tuple[PoolStatus, ...] = ()

    def follow(self, how: Watching) -> None:
        """Take new settings, perhaps of another target; what was counted stays, and a drafter that is out stays out."""
        self._how = how
        self._readings = None
        self._state = replace(self._state, peak_share=State().peak_share)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                with self._steady.turn():
                    self.look(time.monotonic())
                await asyncio.sleep(self._pause_s)
        finally:
            self._waiting.close()

    def ask(self) -> None:
        """The user names a drafter: it need not wait out the hold, but it has to fit."""
        self._asked = self._state.watch is Watch.WITHDRAWN or bool(self._engine.settings.refused)

    def look(self, now_s: float) -> None:
        """Read, judge, act. Nothing is judged while no engine is ready."""
        self._pause_s = self._how.poll_s
        snapshot, pid = self._engine.ledger.snapshot, self._engine.engine_status().pid
        if snapshot is None or pid is None or self._engine.phase is not Phase.READY:
            return
        maps_target = self._how.maps_target and not snapshot.devices
        readings = self._readings = self._how.probe.read(pid, snapshot.devices, maps_target=maps_target, now_s=now_s)
        if readings.gpu_doubt is not None:
            self._engine.doubt_gpu(readings.gpu_doubt)
        if snapshot.drafter_memory.total_bytes:
            self._drafter = snapshot.drafter_memory
        residents = self._held_by_residents()
        self.pools = tuple(pool_status(pool, snapshot, self._how.marks, residents) for pool in readings.pools)
        if lack := shortage(observe(readings, snapshot, self._how.marks, ModelMemory())):
            self._engine.give_up_residents(lack)
        if self._state.watch is not Watch.WITHDRAWN and not _is_present(snapshot):
            self._look_at_absent(readings, snapshot, pid, now_s)
            return
        if self._state.watch is not Watch.WITHDRAWN:
            self._state = replace(self._state, watch=Watch.ADMITTED)
        seen = observe(readings, snapshot, self._how.marks, self._drafter)
        self._state, change = self._how.policy.judge(self._state, seen, now_s, asked=self._asked)
        if change is not None:
            self._apply(change)
        self._reason = self._explain(seen, now_s)
        self._pause_s = pause_s(self._how.poll_s, self._state, seen)

    def status(self) -> MonitorStatus:
        readings = self._readings
        return MonitorStatus(
            watch=self._state.watch,
            reason=self._reason,
            stall_share=readings.stall_share if readings else None,
            major_faults_per_s=readings.major_faults_per_s if readings else None,
            resident_share=readings.resident_share if readings else None,
            counts=dict(self._counts),
            transitions=tuple(self._transitions),
        )

    def _held_by_residents(self) -> ModelMemory:
        """Beside mapped weights."""
        maps = self._how.maps_target
        parts = (held(each.memory, (mapped_bytes(each.pid) or 0) if maps else 0) for each in self._engine.residents())
        return sum(parts, ModelMemory())

    def _look_at_absent(self, readings: Readings, snapshot: EngineSnapshot, pid: int, now_s: float) -> None:
        """There is nothing to withdraw; perhaps something that was refused and fits by now."""
        if not self._engine.settings.refused or not _is_wanted(snapshot):
            self._reason = "no drafter with memory of its own is loaded"
            self._state = replace(self._state, watch=Watch.IDLE)
            return
        self._state = replace(self._state, watch=Watch.REFUSED)
        seen_with = partial(observe, readings, snapshot, self._how.marks)
        policy = self._how.policy
        if self._waiting.look(seen_with, policy, pid, now_s, asked=self._asked):
            self._asked = False
        self._reason = self._waiting.explain(seen_with, policy, now_s)

    async def _how_to_reconsider(self, settings: EngineSettings, pid: int) -> SecondLook:
        return await self._how.reconsider(settings, pid)

    def _record(self, watch: Watch, change: Change) -> None:
        self._counts[change.cause] += 1
        self._transitions.append(Transition(time.time(), watch, change.cause, change.reason))

    def _apply(self, change: Change) -> None:
        self._asked = False
        self._record(self._state.watch, change)
        if self._state.watch is Watch.WITHDRAWN:
            self._engine.withdraw(change.reason)
        else:
            self._engine.readmit(change.reason)

    def _explain(self, seen: Observation, now_s: float) -> str:
        if self._state.watch is Watch.WITHDRAWN:
            since_s = self._state.calm_since_s
            waits = f"calm for {format_duration(now_s - since_s)} of {self._how.policy.hold_s:g} s" if since_s else ""
            return f"{self._transitions[-1].reason}; {why_out(self._state, seen) or waits or 'just now'}"
        known = [level for level in seen.pools if level.free_bytes is not None]
        return ", ".join(
            f"{level.name} has {format_bytes(level.free_bytes)} free, low mark {format_bytes(level.marks.low_bytes)}"
            for level in known
        )


def _is_wanted(snapshot: EngineSnapshot) -> bool:
    """Whether the switch lets the drafter of the configured file be loaded."""
    speculation = snapshot.speculation
    return any(drafter.path and speculation.mode in ("auto", drafter.name) for drafter in speculation.drafters)


def _is_present(snapshot: EngineSnapshot) -> bool:
    """Whether a drafter with memory of its own is loaded or on its way."""
    return any(drafter.path and drafter.state in _PRESENT for drafter in snapshot.speculation.drafters)
