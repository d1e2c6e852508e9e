"""What is given up when nobody asks: first the drafter, then the target. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum


class Rest(IntEnum):
    """How much is given up."""

    NONE = 0
    DRAFTER = 1
    TARGET = 2


@dataclass(frozen=True, slots=True)
class IdleRule:
    """The drafter goes after `unload_s` seconds without a request, the target after twice as long; 0: neither.

    Where models go at all, `keep_s` (None: nothing was said) is how long a client wants one to stay instead.
    """

    unload_s: float

    def target_s(self, keep_s: float | None) -> float:
        """Seconds without a request that the target stays."""
        if self.unload_s <= 0:
            return math.inf
        return 2 * self.unload_s if keep_s is None else keep_s

    def due(self, idle_s: float, keep_s: float | None = None) -> Rest:
        if self.unload_s <= 0:
            return Rest.NONE
        if idle_s >= self.target_s(keep_s):
            return Rest.TARGET
        return Rest.DRAFTER if idle_s >= self.unload_s else Rest.NONE
