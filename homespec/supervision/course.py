"""Which plan the engine follows, why, and what there is to come back to."""

from __future__ import annotations

import asyncio

from homespec.status import StartCause
from homespec.supervision.plan import Plan
from homespec.supervision.replacement import Replacement
from homespec.supervision.requests import Requests


class Course:
    """Of one engine after another."""

    def __init__(self, plan: Plan, requests: Requests) -> None:
        self.plan = plan
        self.cause = StartCause.BOOT
        """Why the next engine is started, or the present one was."""
        self.home = plan
        """Of the model that this daemon is for: without it there is no point in going on."""
        self.switch: str | None = None
        """The drafter mode that was set by hand, for every model."""
        self._requests = requests
        self._replacement = Replacement()

    @property
    def is_dispensable(self) -> bool:
        """Whether the daemon can go on without this plan: it is not what it is for, or nobody wanted it just now."""
        return self.plan is not self.home or self.cause in (StartCause.DEMAND, StartCause.SWAP)

    def turn_to(self, plan: Plan, cause: StartCause) -> None:
        """Another model, or the same again; what fits may have changed since it was loaded last."""
        plan.unfit()
        if self.switch is not None:
            plan.switch(self.switch)
        self._follow(plan)
        self.cause = cause

    def exchange(self, plan: Plan) -> None:
        """Another plan for what the present one is to do, for the requests too."""
        self._requests.move(self.plan, plan)
        if self.home is self.plan:
            self.home = plan
        self.switch = None
        self._follow(plan)

    def replace(self, plan: Plan) -> asyncio.Future[str | None]:
        """The same, and back again should it not load: the outcome is None, or the reason why it did not."""
        outcome = self._replacement.begin(self.plan)
        self.exchange(plan)
        self.cause = StartCause.RELOAD
        return outcome

    def arrived(self) -> None:
        """The plan is loaded."""
        self._replacement.succeeded()

    def fall_back(self, reason: str) -> bool:
        """After a failed replacement: the plan from before, and True."""
        before = self._replacement.failed(reason)
        if before is not None:
            self.exchange(before)
        return before is not None

    def _follow(self, plan: Plan) -> None:
        self.plan = plan
        self._requests.slots = plan.asked.slots
