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
from typing import Protocol

from homespec.headroom.marks import WantedMarks
from homespec.headroom.policy import Change, Observation, Policy, PoolLevel, State, why_out
from homespec.headroom.probe import Probe, Readings
from homespec.headroom.readings import Pool
from homespec.metrics import Ledger
from homespec.status import (
    Cause,
    DraftState,
    EngineSnapshot,
    EngineStatus,
    ModelMemory,
    MonitorStatus,
    Phase,
    PoolStatus,
    Transition,
    Watch,
)
from homespec.units import format_bytes, format_duration

logger = logging.getLogger("homespec.headroom")

_KEPT_TRANSITIONS = 10
_PRESENT = (DraftState.LOADING, DraftState.READY)


class Engine(Protocol):
    """What the monitor sees of the engine, and does to it."""

    phase: Phase
    ledger: Ledger

    def engine_status(self) -> EngineStatus: ...

    def withdraw(self, reason: str) -> None: ...

    def readmit(self, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Watching:
    """How memory is watched."""

    probe: Probe
    policy: Policy
    marks: WantedMarks
    poll_s: float
    maps_target: bool
    """The target is mapped, and decoded from where it is mapped unless a device holds it."""


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
        self._reason = ""
        self._fault = ""
        self._counts = dict.fromkeys(Cause, 0)
        self._transitions: deque[Transition] = deque(maxlen=_KEPT_TRANSITIONS)
        self.pools: tuple[PoolStatus, ...] = ()

    def follow(self, how: Watching) -> None:
        """Take new settings, perhaps of another target; what was counted stays, and a drafter that is out stays out."""
        self._how = how
        self._state = replace(self._state, peak_share=State().peak_share)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            try:
                self.look(time.monotonic())
            except Exception as error:  # whatever one reading comes to, the next one must be taken
                if repr(error) != self._fault:
                    logger.exception("reading memory failed")
                self._fault = repr(error)
            await asyncio.sleep(self._how.poll_s)

    def ask(self) -> None:
        """The user names a drafter: it need not wait out the hold, but it has to fit."""
        self._asked = self._state.watch is Watch.WITHDRAWN

    def look(self, now_s: float) -> None:
        """Read, judge, act. Nothing is judged while no engine is ready."""
        snapshot, pid = self._engine.ledger.snapshot, self._engine.engine_status().pid
        if snapshot is None or pid is None or self._engine.phase is not Phase.READY:
            return
        maps_target = self._how.maps_target and not snapshot.devices
        readings = self._readings = self._how.probe.read(pid, snapshot.devices, maps_target=maps_target, now_s=now_s)
        if snapshot.drafter_memory.total_bytes:
            self._drafter = snapshot.drafter_memory
        seen = self._observe(readings, snapshot)
        self.pools = tuple(self._pool_status(pool, snapshot) for pool in readings.pools)
        if self._state.watch is not Watch.WITHDRAWN and not _is_present(snapshot):
            self._reason = "no drafter with memory of its own is loaded"
            self._state = replace(self._state, watch=Watch.IDLE)
            return
        if self._state.watch is Watch.IDLE:
            self._state = replace(self._state, watch=Watch.ADMITTED)
        self._state, change = self._how.policy.judge(self._state, seen, now_s, asked=self._asked)
        if change is not None:
            self._apply(change)
        self._reason = self._explain(seen, now_s)

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

    def _apply(self, change: Change) -> None:
        self._asked = False
        self._counts[change.cause] += 1
        self._transitions.append(Transition(time.time(), self._state.watch, change.cause, change.reason))
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

    def _observe(self, readings: Readings, snapshot: EngineSnapshot) -> Observation:
        known = self._drafter.total_bytes > 0
        levels = [
            PoolLevel(
                pool.name,
                pool.free_bytes,
                self._how.marks.on(pool.total_bytes),
                _part(self._drafter, pool.members).total_bytes if known else None,
            )
            for pool in readings.pools
            if pool.total_bytes is not None
        ]
        return Observation(
            pools=tuple(levels),
            is_loaded=snapshot.drafter_memory.total_bytes > 0,
            stall_share=readings.stall_share,
            stall_is_own=readings.stall_is_own,
            resident_share=readings.resident_share,
            major_faults_per_s=readings.major_faults_per_s,
        )

    def _pool_status(self, pool: Pool, snapshot: EngineSnapshot) -> PoolStatus:
        marks = self._how.marks.on(pool.total_bytes) if pool.total_bytes is not None else None
        return PoolStatus(
            name=pool.name,
            description=pool.description,
            total_bytes=pool.total_bytes,
            free_bytes=pool.free_bytes,
            source=pool.source,
            target=_part(snapshot.target_memory, pool.members),
            drafter=_part(snapshot.drafter_memory, pool.members),
            reserve_bytes=marks.reserve_bytes if marks else None,
            low_bytes=marks.low_bytes if marks else None,
            high_bytes=marks.high_bytes if marks else None,
        )


def _part(memory: ModelMemory, members: Sequence[str]) -> ModelMemory:
    """What of a model's memory lies in a pool."""
    return sum((memory.on(name) for name in members), ModelMemory())


def _is_present(snapshot: EngineSnapshot) -> bool:
    """Whether a drafter with memory of its own is loaded or on its way."""
    return any(drafter.path and drafter.state in _PRESENT for drafter in snapshot.speculation.drafters)
