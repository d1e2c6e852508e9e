"""Limits of a daemon that does nothing by itself, but for what a test is about."""

from __future__ import annotations

from typing import Any

from homespec.supervision.gpu_wait import MissingGpu
from homespec.supervision.limits import Limits
from homespec.supervision.rest import IdleRule

_QUIET: dict[str, Any] = {
    "max_queue": 100,
    "queue_timeout_s": 1e6,
    "turn_s": 0.0,
    "stall_timeout_s": 1e6,
    "load_timeout_s": 1e6,
    "missing_gpu": MissingGpu(0, "fail"),
    "idle": IdleRule(0),
}


def limits(**changes: Any) -> Limits:
    return Limits(**{**_QUIET, **changes})
