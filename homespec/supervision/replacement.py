"""A new configuration: what to come back to when it does not load, and who waits for the outcome."""

from __future__ import annotations

import asyncio

from homespec.supervision.plan import Plan


class Replacement:
    """At most one at a time; another one in its middle still comes back to what ran before the first."""

    def __init__(self) -> None:
        self._before: Plan | None = None
        self._outcome: asyncio.Future[str | None] | None = None

    def begin(self, running: Plan) -> asyncio.Future[str | None]:
        """The outcome to wait for: None, or why the new configuration was not taken."""
        self._finish("another configuration was asked for meanwhile")
        self._before = self._before or running
        self._outcome = asyncio.get_running_loop().create_future()
        return self._outcome

    def succeeded(self) -> None:
        self._before = None
        self._finish(None)

    def failed(self, reason: str) -> Plan | None:
        """The plan from before; None when nothing is being replaced."""
        before, self._before = self._before, None
        self._finish(reason)
        return before

    def _finish(self, reason: str | None) -> None:
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(reason)
        self._outcome = None
