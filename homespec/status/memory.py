"""Memory: pools, who holds what of them, and what has been done about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from homespec.memory_plan import MemoryPlan
from homespec.status.model import ModelMemory


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool of memory: the host's, or that of a device with memory of its own."""

    name: str
    """`host`, or the device's name."""
    description: str
    total_bytes: int | None
    free_bytes: int | None
    """What could still be allocated without taking anything from the target."""
    source: str
    """Where the two numbers come from, or why there are none."""
    target: ModelMemory
    drafter: ModelMemory
    reserve_bytes: int | None
    """Kept free for everyone else; headroom is free minus this."""
    low_bytes: int | None
    """With less than this free, the drafter goes."""
    high_bytes: int | None
    """With at least this free beside it, the drafter may come back."""
    residents_bytes: int = 0
    """What residents hold there. Their pages of mapped files are not counted: the system may take those back, so they
    are free.
    """

    @property
    def others_bytes(self) -> int | None:
        """What no model of homespec's holds and is not free."""
        if self.total_bytes is None or self.free_bytes is None:
            return None
        ours = self.target.total_bytes + self.drafter.total_bytes + self.residents_bytes
        return max(self.total_bytes - self.free_bytes - ours, 0)


@dataclass(frozen=True, slots=True)
class ResidentStatus:
    """A model that stays loaded while another one answers."""

    id: str
    pid: int
    """Of its engine."""
    memory: ModelMemory
    """All that it holds, mapped files included."""
    idle_s: float
    """Seconds since it has answered."""


class Watch(StrEnum):
    """What the pressure monitor does."""

    IDLE = "idle"
    """There is nothing that it could withdraw."""
    ADMITTED = "admitted"
    """A drafter with memory of its own may be loaded."""
    WITHDRAWN = "withdrawn"
    """It may not, because of pressure."""
    REFUSED = "refused"
    """It did not fit when the engine was started, and is let in once it does."""


class Cause(StrEnum):
    """Why a drafter was withdrawn or readmitted."""

    LOW_MEMORY = "low_memory"
    STALLED = "stalled"
    EVICTED = "evicted"
    RECOVERED = "recovered"
    FITS = "fits"
    """It was refused when the engine was started, and fits by now."""
    ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Transition:
    """A drafter withdrawn or readmitted."""

    time_unix: float
    watch: Watch
    """The state after it."""
    cause: Cause
    reason: str
    """With the numbers."""


@dataclass(frozen=True, slots=True)
class MonitorStatus:
    """The pressure monitor: its state, what it reads beside the pools, and what it did."""

    watch: Watch
    reason: str
    stall_share: float | None
    """Share of the last second in which every task of the box or control group waited for memory (PSI, full)."""
    major_faults_per_s: float | None
    """Pages that the engine had to read back from disk."""
    resident_share: float | None
    """Share of the target's mapped file that is in memory."""
    counts: dict[Cause, int]
    """Transitions since the daemon started."""
    transitions: tuple[Transition, ...]
    """The latest ones, oldest first."""


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """Memory of the models and of the box."""

    target: ModelMemory
    drafter: ModelMemory
    kv_used_tokens: int
    kv_total_tokens: int
    engine_rss_bytes: int | None
    host_total_bytes: int | None
    host_available_bytes: int | None
    pools: tuple[PoolStatus, ...] = ()
    """The host first, then devices with memory of their own."""
    monitor: MonitorStatus | None = None
    plan: MemoryPlan | None = None
    """None when it was not estimated what fits."""
    residents: tuple[ResidentStatus, ...] = ()
    """The one that was used last at the end."""
