"""Waiting for a GPU that was asked for and is not there: drivers come up late at boot and after a suspend."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from homespec.errors import GpuMissing
from homespec.supervision.plan import Plan
from homespec.supervision.state import State

logger = logging.getLogger("homespec.supervisor")

RETRY_S = 2.0


@dataclass(frozen=True, slots=True)
class MissingGpu:
    """What to do when a GPU that was asked for is not there."""

    wait_s: float
    """How long it is looked for again."""
    then: Literal["fail", "cpu"]


class GpuWait:
    """Since when it is missed, and whether there ever was one."""

    def __init__(self, state: State, pause: Callable[[float], Awaitable[None]]) -> None:
        self._state = state
        self._pause = pause
        self._since: float | None = None
        self.reason: str | None = None
        """Why it is waited for."""
        self.was_there = False
        """An engine of this daemon has had one."""
        self.is_given_up = False
        """It has been waited for in vain: from now on the CPU follows at once where it is missed."""

    def ready(self, device: str) -> None:
        """A target is loaded, on a GPU or without."""
        if device != "CPU":
            self.was_there, self.is_given_up = True, False
        self.over()

    def over(self) -> None:
        """It is there, or no longer asked for."""
        self._since = self.reason = None

    async def is_worth_a_try(self, plan: Plan, error: GpuMissing, rule: MissingGpu) -> bool:
        """Whether to start another engine, after a pause: with the GPU while there is time, then without it when that
        is what to do. Nobody has asked for the GPU of an automatic number of layers: there the CPU may always follow.
        """
        now = time.monotonic()
        is_news = self._since is None
        self._since = self._since or now
        left_s = self._since + rule.wait_s - now
        if left_s > 0 and not self.is_given_up:
            self.reason = str(error)
            self._state.detail = f"{error}; waiting for it for {left_s:.0f} s more"
            if is_news:
                self._state.tell("engine", self._state.detail)
            plan.unfit()  # what fits without a GPU says nothing
            await self._pause(min(RETRY_S, left_s))
            return True
        if rule.then == "fail" and plan.asked.n_gpu_layers > 0:
            return False
        self.give_up(plan, f"{error} (waited {rule.wait_s:g} s)")
        return True

    def give_up(self, plan: Plan, why: str) -> None:
        """Have the CPU take its place, until it is found again."""
        self.is_given_up = True
        reason = f"on the CPU: {why}; it is looked for again while nothing runs"
        plan.degrade(reason)
        logger.warning("degraded, %s", reason)
        self._state.tell("engine", f"degraded, {reason}")
