"""Which requests may start when they ask for several models, of which one is loaded. Pure.

Requests start in the order they came in, but for one thing: those for the loaded model may go ahead of the others for
`turn_s` after it was loaded. Else two models that are asked for in turn would be loaded for every single request. So
nobody waits longer than for what came before, one turn, and the answers that run at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from homespec.supervision.job import Job
from homespec.supervision.plan import Plan

LINGER_S = 0.25
"""A model stays at least that long: whoever waited for its facts has not sent the request itself yet."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Of the loaded model. Times are monotonic, in seconds."""

    plan: Plan
    began: float
    turn_s: float

    def last_call(self, waiting: Sequence[Job], now: float) -> float:
        """Requests for the loaded model may start when they came in by then, those of other models in `waiting`."""
        others = [job.received_at for job in waiting if job.plan is not self.plan]
        return min(others, default=inf) if now >= self.began + self.turn_s else inf

    def successor(self, waiting: Sequence[Job], now: float, *, num_running: int) -> Plan | None:
        """The model whose turn it is next, once nothing runs and nothing more of this turn may start; None: not yet."""
        if num_running or now < self.began + LINGER_S:
            return None
        last_call = self.last_call(waiting, now)
        if any(job.plan is self.plan and job.received_at <= last_call for job in waiting):
            return None
        return first_in_line(waiting)


def first_in_line(waiting: Sequence[Job]) -> Plan | None:
    """The model of the request that has waited longest."""
    return min(waiting, key=lambda job: job.received_at).plan if waiting else None
