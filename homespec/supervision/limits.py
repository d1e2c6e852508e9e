"""What bounds the life of requests and engines, all of it to be changed while they run."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.supervision.gpu_wait import MissingGpu
from homespec.supervision.rest import IdleRule


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds, but for the queue's length."""

    max_queue: int
    """Requests that may wait for a slot, all models together."""
    queue_timeout_s: float
    """How long each of them may."""
    turn_s: float
    """While requests for other models wait: how long those for the loaded one may go ahead of them."""
    stall_timeout_s: float
    """Without progress of a busy engine, or a word of an idle one."""
    load_timeout_s: float
    """Without progress of a load."""
    missing_gpu: MissingGpu
    idle: IdleRule
