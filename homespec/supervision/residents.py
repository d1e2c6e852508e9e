"""Models that stay loaded while another one answers. They are the first to go when memory is wanted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from homespec.status import EngineSnapshot, ResidentStatus
from homespec.supervision.engine import Engine
from homespec.supervision.plan import Plan
from homespec.supervision.rest import IdleRule, Rest
from homespec.supervision.state import State
from homespec.units import format_duration


@dataclass(frozen=True, slots=True)
class Resident:
    """An engine that has nothing to do."""

    engine: Engine
    counted: EngineSnapshot | None
    """How far the daemon's totals hold what it has done."""
    since: float = field(default_factory=time.monotonic)

    @property
    def plan(self) -> Plan:
        return self.engine.plan

    @property
    def idle_s(self) -> float:
        """Seconds since it has answered."""
        return time.monotonic() - self.since

    @property
    def status(self) -> ResidentStatus:
        return ResidentStatus(self.plan.model_id, self.engine.child.pid, self.engine.memory, self.idle_s)


class Residents:
    """The one that was used last comes last."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._residents: list[Resident] = []

    def __len__(self) -> int:
        return len(self._residents)

    def __iter__(self) -> Iterator[Plan]:
        return (resident.plan for resident in self._residents)

    def __contains__(self, plan: Plan) -> bool:
        return any(resident.plan is plan for resident in self._residents)

    def add(self, resident: Resident) -> None:
        self._residents.append(resident)
        resident.engine.on_end(lambda: self._forget(resident))

    def take(self, plan: Plan) -> Resident:
        """It is to answer again. Raises StopIteration when it is not there."""
        resident = next(each for each in self._residents if each.plan is plan)
        self._residents.remove(resident)
        return resident

    def idle_s(self, plan: Plan) -> float:
        """Seconds since it has answered; 0 for one that is not there."""
        return next((each.idle_s for each in self._residents if each.plan is plan), 0.0)

    def status(self) -> tuple[ResidentStatus, ...]:
        return tuple(each.status for each in self._residents)

    def rest(self, rule: IdleRule) -> None:
        """Give up what nobody has asked for in so long."""
        for resident in list(self._residents):
            idle_s = resident.idle_s
            if rule.due(idle_s, resident.plan.keep_s) is Rest.TARGET:
                self._dismiss(resident, f"nobody has asked for it for {format_duration(idle_s)}")

    async def give_up_oldest(self, why: str) -> None:
        """Returns when its memory is free."""
        resident = self._residents[0]
        self._dismiss(resident, why)
        await resident.engine.ended()

    def give_up(self, why: str) -> None:
        """All of them, soon."""
        for resident in list(self._residents):
            self._dismiss(resident, why)

    async def stop(self) -> None:
        """The daemon ends."""
        engines = [resident.engine for resident in self._residents]
        self._residents.clear()
        await asyncio.gather(*(engine.child.stop() for engine in engines))

    def kill(self) -> None:
        """End them at once."""
        for resident in self._residents:
            resident.engine.child.kill()

    def _dismiss(self, resident: Resident, why: str) -> None:
        self._residents.remove(resident)
        self._state.tell("model", f"{resident.plan.model_id} unloaded: {why}")
        resident.engine.dismiss()

    def _forget(self, resident: Resident) -> None:
        """Nobody is harmed by the end of an engine that nobody waits for: it is loaded again when asked for."""
        if resident in self._residents:
            self._residents.remove(resident)
            self._state.tell("model", f"the engine of {resident.plan.model_id} is gone; the next request loads it")
