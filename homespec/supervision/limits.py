"""What bounds the life of requests and engines, all of it to be changed while they run."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.config import Settings
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

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        return cls(
            max_queue=settings.max_queue,
            queue_timeout_s=settings.queue_timeout_s,
            turn_s=settings.turn_s,
            stall_timeout_s=settings.stall_timeout_s,
            load_timeout_s=settings.load_timeout_s,
            missing_gpu=MissingGpu(settings.gpu_wait_s, settings.gpu_missing),
            idle=IdleRule(settings.idle_unload_s),
        )
