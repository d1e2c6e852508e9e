"""The engine process: its life, and its report of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from homespec.status.drafting import SpeculationStatus
from homespec.status.model import DeviceMemory, ModelMemory
from homespec.status.request import RequestStatus


class StartCause(StrEnum):
    """Why an engine was started."""

    BOOT = "boot"
    DEATH = "death"
    RELOAD = "reload"
    """A new configuration."""
    DEMAND = "demand"
    """A request came while nothing was loaded."""
    SWAP = "swap"
    """A request came for another model."""


DECODING_WITH = "decoding with"
"""How an event begins that tells how many of its threads an engine leaves to other work: so many `of` so many."""
EXACTNESS_PENDING = "being measured"
"""Part of the exactness reason while the engine measures, which it does when it is idle."""


@dataclass(slots=True)
class EngineCounters:
    """Totals since the engine process started; in Status, since the daemon started."""

    rounds: int = 0
    """Target passes that produced tokens."""
    requests: int = 0
    prompt_tokens: int = 0
    """Prompt tokens computed; reused ones are not counted."""
    cached_tokens: int = 0
    output_tokens: int = 0
    preemptions: int = 0
    skipped_drafts: dict[str, int] = field(default_factory=dict)
    """Times that a sequence went through a round without a draft, by reason."""
    draft_s: float = 0.0
    """Seconds that drafters took."""
    verify_s: float = 0.0
    """Seconds that the target's passes took in rounds, plain ones included."""


@dataclass(frozen=True, slots=True)
class EngineSnapshot:
    """Everything the engine tells about itself a few times a second."""

    speculation: SpeculationStatus
    counters: EngineCounters
    requests: tuple[RequestStatus, ...]
    target_memory: ModelMemory
    drafter_memory: ModelMemory
    kv_used_tokens: int
    kv_total_tokens: int
    devices: tuple[DeviceMemory, ...] = ()
    """Devices beside the CPU that may hold layers."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine process as its supervisor sees it."""

    pid: int | None
    restarts: int
    last_exit: str | None
    """Why the previous engine ended, in one line."""
    progress: int
    """Counter of the decode loop: it grows while work is done."""
    progress_age_s: float | None
    """Seconds since the counter grew while there was work; None when idle."""
    starts: dict[StartCause, int] = field(default_factory=dict)
    """Engines started since the daemon was, by cause."""
    idle_unloads: dict[str, int] = field(default_factory=dict)
    """Times that the `drafter` or the `target` was unloaded because nobody asked for anything."""
    residents: tuple[str, ...] = ()
    """Other models that stay loaded, the one that was used last at the end."""
