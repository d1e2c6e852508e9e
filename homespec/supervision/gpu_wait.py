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
    """Since when it is missed."""

    def __init__(self, state: State, pause: Callable[[float], Awaitable[None]]) -> None:
        self._state = state
        self._pause = pause
        self._since: float | None = None

    def over(self) -> None:
        """It is there, or no longer asked for."""
        self._since = None

    async def is_worth_a_try(self, plan: Plan, error: GpuMissing, rule: MissingGpu) -> bool:
        """Whether to start another engine, after a pause: with the GPU while there is time, then without it when that
        is what to do.
        """
        now = time.monotonic()
        self._since = self._since or now
        left_s = self._since + rule.wait_s - now
        if left_s > 0:
            self._state.detail = f"{error}; waiting for it for {left_s:.0f} s more"
            self._state.tell("engine", self._state.detail)
            plan.unfit()  # what fits without a GPU says nothing
            await self._pause(min(RETRY_S, left_s))
            return True
        if rule.then == "fail":
            return False
        reason = f"on the CPU: {error} within {rule.wait_s:g} s"
        plan.degrade(reason)
        logger.warning("degraded, %s", reason)
        self._state.tell("engine", f"degraded, {reason}")
        return True
