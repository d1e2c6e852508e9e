"""The daemon, and everything of it in one record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from homespec.stats import DraftStats
from homespec.status.drafting import SpeculationStatus
from homespec.status.engine import EngineCounters, EngineStatus
from homespec.status.memory import MemoryStatus
from homespec.status.model import ModelStatus
from homespec.status.request import RequestStatus


class Phase(StrEnum):
    """Life of the daemon, as /health names it."""

    LOADING = "loading"
    READY = "ready"
    IDLE = "idle"
    """Nothing is loaded; the next request has it loaded."""
    RESTARTING = "restarting"
    STALLED = "stalled"
    STOPPING = "stopping"
    FAILED = "failed"


class Residence(StrEnum):
    """Whether a model is in memory."""

    LOADED = "loaded"
    LOADING = "loading"
    UNLOADED = "unloaded"


@dataclass(frozen=True, slots=True)
class ThroughputStatus:
    """Rates over the last seconds; None while idle."""

    tokens_per_second: float | None
    prompt_tokens_per_second: float | None
    acceptance_rate: float | None
    acceptance_length: float | None
    """Tokens per target row group: plain rounds count as 1."""
    draft_length: float | None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    running: int
    waiting: int
    limit: int
    """Requests that may wait before new ones get 503."""


@dataclass(frozen=True, slots=True)
class FirstTokenStatus:
    """Seconds from a request's arrival to its first token: what it waited, and what its prompt took."""

    count: int = 0
    """Answers that have begun since the daemon started."""
    total_s: float = 0.0
    """Of all of them."""
    last_s: float | None = None
    """None before the first one."""
    median_s: float | None = None
    """Of the latest ones."""


@dataclass(frozen=True, slots=True)
class OfferStatus:
    """One of the models that requests may name."""

    id: str
    residence: Residence
    waiting: int
    """Requests for it that wait."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of state worth telling, with its reason."""

    time_unix: float
    kind: str
    """engine, drafter, model or daemon."""
    text: str


@dataclass(frozen=True, slots=True)
class Status:
    """One snapshot of the daemon: the body of /status and of each message on /events."""

    version: str
    time_unix: float
    uptime_s: float
    phase: Phase
    detail: str
    """What the phase means right now, in one line."""
    load_progress: float
    """0 to 1; 1 once the target is ready."""
    exactness: str
    """`strict` or `distribution`; see docs/architecture.md."""
    exactness_reason: str
    """What was compared, and by how much it differs."""
    model: ModelStatus | None
    engine: EngineStatus
    queue: QueueStatus
    throughput: ThroughputStatus
    speculation: SpeculationStatus | None
    counters: EngineCounters
    drafts: dict[str, DraftStats]
    """Per drafter, since the daemon started (engine restarts included)."""
    requests: tuple[RequestStatus, ...]
    memory: MemoryStatus | None
    events: tuple[Event, ...]
    """The latest ones, oldest first."""
    models: tuple[OfferStatus, ...] = ()
    """Those of the configuration, and whichever of a store is loaded."""
    first_token: FirstTokenStatus = FirstTokenStatus()
    degraded: str | None = None
    """Why requests get less than was asked for, or nothing for now: a GPU that is not there. With the remedy."""
