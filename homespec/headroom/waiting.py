"""A drafter that did not fit when the engine was started: it waits for room, and the gate is asked again.

Asking takes a second of a process of its own, so the readings are looked at first, with what the gate has last said of
its size.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from homespec.footprint import Footprint
from homespec.frames import Admit, EngineSettings
from homespec.headroom.policy import Change, Observation, Policy, State, why_out
from homespec.headroom.reconsider import Reconsider, SecondLook
from homespec.status import Cause, ModelMemory, Watch
from homespec.units import format_duration

MAX_FAILURES = 3
"""To measure; after that, only the user's word leads to another try."""

Observe = Callable[[ModelMemory], Observation]
"""What is seen, for a drafter of that size; a size of 0 is not known."""


class Host(Protocol):
    """The engine that the drafter waits for."""

    @property
    def settings(self) -> EngineSettings: ...

    def admit(self, way: Admit, reason: str) -> None: ...


class Waiting:
    """One engine's refused drafter. A change of engine, or of what it was told, makes it a new case."""

    def __init__(self, host: Host, reconsider: Reconsider, admitted: Callable[[Change], None]) -> None:
        """admitted: told when the drafter is let in, after the engine was."""
        self._host = host
        self._reconsider = reconsider
        self._admitted = admitted
        self._case: tuple[int, str | None, str] | None = None
        self._state = State(Watch.REFUSED)
        self._answer: SecondLook | None = None
        self._num_failures = 0
        self._is_named = False
        """The user has asked for it, and the gate has said that there is no room."""
        self._asking: asyncio.Task[None] | None = None

    def look(self, observe: Observe, policy: Policy, pid: int, now_s: float, *, asked: bool) -> bool:
        """Ask the gate once there has been room for long enough; whether it does. asked: the user need not wait."""
        if (case := _case_of(self._host.settings, pid)) != self._case:
            self._case, self._answer, self._num_failures, self._is_named = case, None, 0, False
            self._state = State(Watch.REFUSED)
        if self._is_asking:
            return False
        if self._asking is not None:
            task, self._asking = self._asking, None
            task.result()
        if self._is_hopeless and not asked:
            return False
        asked = asked or self._is_named
        self._state, change = policy.judge(self._state, self._best(observe), now_s, asked=asked)
        if change is None:
            return False
        self._state = State(Watch.REFUSED)
        self._asking = asyncio.create_task(self._ask(pid, change))
        return True

    def explain(self, observe: Observe, policy: Policy, now_s: float) -> str:
        """What it waits for."""
        said = self._answer.reason if self._answer is not None else next(iter(self._host.settings.refused.values()))
        if self._is_asking:
            return f"{said}; the gate is asked again"
        if self._is_hopeless:
            return said
        since_s = self._state.calm_since_s
        waits = f"room for {format_duration(now_s - since_s)} of {policy.hold_s:g} s" if since_s is not None else ""
        return f"{said}; {why_out(self._state, self._best(observe)) or waits or 'just now'}"

    def close(self) -> None:
        """Give up asking."""
        if self._asking is not None:
            self._asking.cancel()

    @property
    def _is_asking(self) -> bool:
        return self._asking is not None and not self._asking.done()

    @property
    def _is_hopeless(self) -> bool:
        answer = self._answer
        return answer is not None and not answer.sizes and (answer.is_measured or self._num_failures >= MAX_FAILURES)

    def _best(self, observe: Observe) -> Observation:
        """Of the ways to load it, one that nothing speaks against, else the last: the smallest."""
        sizes = self._answer.sizes if self._answer is not None else ()
        ways = [observe(_memory(size)) for size in sizes] or [observe(ModelMemory())]
        return next((way for way in ways if not why_out(self._state, way)), ways[-1])

    async def _ask(self, pid: int, change: Change) -> None:
        case = self._case
        answer = await self._reconsider(self._host.settings, pid)
        if case != self._case or case != _case_of(self._host.settings, pid):
            return  # the engine was started anew meanwhile, or told something else
        self._answer = answer
        self._num_failures += not answer.is_measured
        self._is_named = change.cause is Cause.ASKED and bool(answer.sizes)
        if answer.way is not None:
            change = replace(change, reason=f"{change.reason}; {answer.reason}")
            self._host.admit(answer.way, change.reason)
            self._admitted(change)


def _case_of(settings: EngineSettings, pid: int) -> tuple[int, str | None, str]:
    return pid, settings.draft_path, "".join(settings.refused.values())


def _memory(size: Footprint) -> ModelMemory:
    parts = {
        device: ModelMemory(shares.weights_bytes, shares.kv_bytes, shares.compute_bytes + shares.output_bytes)
        for device, shares in size.devices.items()
    }
    return replace(sum(parts.values(), ModelMemory()), by_device=parts)
