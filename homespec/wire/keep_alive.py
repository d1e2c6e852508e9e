"""Ollama's `keep_alive`: a number of seconds, or a duration as Go writes it (`time.ParseDuration`)."""

from __future__ import annotations

import math
import re
from typing import Any

from homespec.errors import RequestError

_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 2**63 / 1e9
"""292 years, in nanoseconds the largest number of 64 bits."""
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"-?(?:{_PART.pattern})+")


def keep_s(value: Any) -> float | None:
    """Seconds; infinite for a negative value and beyond Go's durations, None for none. Raises RequestError."""
    if value is None or value == "":
        return None
    seconds = _seconds(value)
    if seconds is None:
        raise RequestError(
            f"keep_alive = {value!r} is neither a number of seconds nor a duration such as '10m'", param="keep_alive"
        )
    return math.inf if seconds < 0 or seconds > _LONGEST_S else float(seconds)


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return None
    if re.fullmatch(r"-?\d{1,15}", value):
        return float(value)
    if not _DURATION.fullmatch(value):
        return None
    seconds = sum(float(number) * _UNITS_S[unit] for number, unit in _PART.findall(value))
    return -seconds if value.startswith("-") else seconds
