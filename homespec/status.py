"""The state that everyone looks at: what the engine reports, /status answers and the dashboard draws.

One set of frozen records serves the frames between the processes, the JSON on the wire and the widgets, so the three
cannot disagree. No field ever holds text of a prompt or an answer. Unknown is None, never a guess.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from homespec.stats import DraftStats


class Phase(StrEnum):
    """Life of the daemon, as /health names it."""

    LOADING = "loading"
    READY = "ready"
    RESTARTING = "restarting"
    STALLED = "stalled"
    STOPPING = "stopping"
    FAILED = "failed"


class DraftState(StrEnum):
    """Life of one drafter."""

    OFF = "off"
    LOADING = "loading"
    READY = "ready"
    UNLOADING = "unloading"


class RequestPhase(StrEnum):
    """Where a request is inside the engine."""

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """Facts of the loaded target that do not change while it runs."""

    id: str
    path: str
    description: str
    """llama.cpp's own words, for example `llama 135M Q4_1`."""
    architecture: str
    num_params: int
    size_bytes: int
    n_vocab: int
    n_layer: int
    n_ctx: int
    """Tokens that one request may use; all slots share the same pool."""
    n_ctx_train: int
    slots: int
    kv_type: str
    flash_attention: bool
    threads: int
    devices: tuple[str, ...]
    """Names of the devices that hold weights; `CPU` alone means nothing was offloaded."""
    chat_template: str | None
    """Where the template comes from; None for a base model without one."""


@dataclass(frozen=True, slots=True)
class DrafterStatus:
    """One drafter and why it is in its state."""

    name: str
    state: DraftState
    reason: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class SpeculationStatus:
    """What drafts at the moment, and how well."""

    mode: str
    """The process-wide switch: auto, off, or the name of a drafter."""
    drafter: str | None
    """The drafter that `mode` selects now; None when nothing drafts."""
    state: DraftState
    reason: str
    max_draft_tokens: int
    drafters: tuple[DrafterStatus, ...]
    totals: dict[str, DraftStats]
    """Per drafter, since the engine started."""


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """One request in flight: numbers only."""

    id: str
    phase: RequestPhase
    slot: int | None
    num_prompt_tokens: int
    num_prefilled_tokens: int
    """Prompt tokens in the KV cache, reused ones included."""
    num_cached_tokens: int
    """Prompt tokens that were reused from an earlier request."""
    num_output_tokens: int
    age_s: float
    tokens_per_second: float | None
    drafter: str | None
    num_draft_tokens: int
    """D of the last round."""
    acceptance_rate: float | None
    acceptance_length: float | None


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes that one model holds, over all devices, as llama.cpp logged them."""

    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    """Compute and output buffers."""

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.compute_bytes


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


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """Memory of the two models and of the box."""

    target: ModelMemory
    drafter: ModelMemory
    kv_used_tokens: int
    kv_total_tokens: int
    engine_rss_bytes: int | None
    host_total_bytes: int | None
    host_available_bytes: int | None


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


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's per-request timings, so its tools read ours."""

    prompt_n: int
    prompt_ms: float
    prompt_per_second: float | None
    predicted_n: int
    predicted_ms: float
    predicted_per_second: float | None
    cache_n: int
    draft_n: int
    draft_n_accepted: int


@dataclass(frozen=True, slots=True)
class SpeculationReport:
    """What drafting did for one request."""

    state: DraftState
    reason: str
    drafters: dict[str, int]
    """Rounds drafted, per drafter."""
    rounds: int
    """Target passes that produced this answer."""
    drafted: int
    accepted: int
    acceptance_length: float | None
    """Tokens per target pass over all rounds of the request; None before the first."""
    per_position: list[float]
    exactness: str
