"""Looks at the engine and its requests a few times a second: does it get on, is it wanted, is another one wanted?"""

from __future__ import annotations

import asyncio
import logging
import time

from homespec.status import Phase
from homespec.steady import Steady
from homespec.supervision.life import Life
from homespec.supervision.load_clock import LoadClock
from homespec.supervision.requests import Requests
from homespec.supervision.rest import Rest
from homespec.supervision.state import State
from homespec.units import format_bytes, format_duration

logger = logging.getLogger("homespec.supervisor")

INTERVAL_S = 0.25
_HELD_S = 1.0
"""More between two looks than between them was meant to be: the daemon itself did not run."""


class Watch:
    """Of one life."""

    def __init__(self, life: Life, state: State, requests: Requests) -> None:
        self._life = life
        self._state = state
        self._requests = requests
        self._load_clock = LoadClock()
        self._looked_at = time.monotonic()
        self._steady = Steady(logger, "watching over the engine")
        requests.on_change = self.requests_changed

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_S)
            with self._steady.turn():
                self._look(time.monotonic())

    def requests_changed(self) -> None:
        """A request has come or gone."""
        self._life.call()
        if len(self._requests):
            self.wake_drafter()
            self._swap()

    def wake_drafter(self) -> None:
        """It was out because nobody asked for anything."""
        absence = self._life.absence
        if absence.idle:
            absence.idle = ""
            self._life.tell_engine(absence.frame)

    def _look(self, now: float) -> None:
        self._requests.drop_overdue(now)
        self._excuse(now)
        self._check_progress(now)
        self._swap()
        self._renew()
        self._life.residents.rest(self._life.limits.idle)
        self._rest()

    def _excuse(self, now: float) -> None:
        """The time in which this process was stopped, as `docker pause` does, says nothing against an engine."""
        held_s = now - self._looked_at - INTERVAL_S
        self._looked_at = now
        if held_s > _HELD_S:
            self._life.progress.excuse(held_s, now)
            self._load_clock.excuse(held_s, now)

    def _check_progress(self, now: float) -> None:
        """Kill an engine whose load or decode loop makes no progress, or that does not speak at all."""
        life, state = self._life, self._state
        if life.engine is None or life.engine.is_dismissed:
            return
        if state.phase is Phase.READY:
            if life.progress.waited_s(now) > life.limits.stall_timeout_s:
                life.kill(f"stalled for {life.limits.stall_timeout_s:g} s")
        elif state.phase in (Phase.LOADING, Phase.RESTARTING):
            seen = (life.engine.child.pid, state.load_progress, state.detail)
            if self._load_clock.stood_still_s(seen, now) > life.limits.load_timeout_s:
                at = f"{state.load_progress:.0%}, {state.detail}"
                life.kill(f"made no progress loading for {life.limits.load_timeout_s:g} s (at {at})")

    def _swap(self) -> None:
        """Load the model whose turn it is."""
        if self._life.ready_engine is not None and (plan := self._requests.next_plan()) is not None:
            self._life.swap(plan)

    def _renew(self) -> None:
        """An engine whose GPU is said to be lost has to show what is true. One that answers is not disturbed: it dies
        of it, or it goes on.
        """
        reason = self._life.gpu_doubt.open_reason
        if reason is not None and self._life.ready_engine is not None and not len(self._requests):
            self._life.renew(reason)

    def _rest(self) -> None:
        """Give up memory that nobody has use for."""
        if self._life.ready_engine is None or len(self._requests):
            return
        idle_s = self._requests.idle_s
        match self._life.limits.idle.due(idle_s, self._life.plan.keep_s):
            case Rest.DRAFTER:
                self._rest_drafter(f"nobody has asked for anything for {format_duration(idle_s)}")
            case Rest.TARGET:
                self._life.unload(f"nobody has asked for anything for {format_duration(idle_s)}")

    def _rest_drafter(self, why: str) -> None:
        """Drafters without memory of their own stay."""
        snapshot, absence = self._state.ledger.snapshot, self._life.absence
        held = snapshot.drafter_memory.total_bytes if snapshot else 0
        if absence.reason or not held:
            return
        absence.idle = why
        self._state.idle_unloads["drafter"] += 1
        self._state.tell("drafter", f"{format_bytes(held)} given up: {why}")
        self._life.tell_engine(absence.frame)
