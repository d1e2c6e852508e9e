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


EXACTNESS_PENDING = "being measured"
"""Part of the exactness reason while the engine measures, which it does when it is idle."""


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
class ChatFormat:
    """What the target's chat template can do, found out by rendering samples with it."""

    name: str
    """Family of its markers, for example `chatml`; `custom` for one that is not known."""
    source: str
    """the model file, built in, or the path of a file."""
    tool_format: str | None = None
    """How it teaches the model to write tool calls; None: it knows no tools, and homespec describes them itself."""
    reasoning: tuple[str, str] | None = None
    """The markers around a thinking block; None without one."""
    takes_system: bool = True
    takes_neighbours: bool = True
    """Accepts two messages of one role in a row."""
    takes_objects: bool = True
    """Wants the arguments of a call as an object; else as JSON text."""
    variables: tuple[str, ...] = ()
    """Names that it reads beside messages and tools, such as enable_thinking."""


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
    chat: ChatFormat | None = None


@dataclass(frozen=True, slots=True)
class DrafterStatus:
    """One drafter and why it is in its state."""

    name: str
    state: DraftState
    reason: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ControllerStatus:
    """What the decisions are made from, and what they came to."""

    costs: str
    """Where the costs come from: `measured`, `kept` from an earlier run, `assumed`, or `unknown` as yet."""
    plain_ms: float | None
    """T(1): one row in a short context, as tracked."""
    row_costs: dict[int, float]
    """T(rows)/T(1), as tracked."""
    draft_costs: dict[str, float]
    """Of each drafter that takes time: one draft token in T(1)."""
    paused: dict[str, str]
    """Drafters that are left alone, with the reason in numbers."""
    predicted_speedup: float | None
    """Over plain decoding, by what was expected of the last rounds."""
    measured_speedup: float | None
    """The same by the clock."""
    decision_us: float | None
    """Microseconds that deciding takes per sequence and round."""


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
    controller: ControllerStatus | None = None
    """None while D is fixed."""


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
    decision: str | None = None
    """What the controller decided in the last round, with its numbers; None when it was not asked."""

    @classmethod
    def waiting(cls, request_id: str, *, age_s: float) -> RequestStatus:
        """Of a request that the engine has not seen: its prompt has not been counted."""
        return cls(
            id=request_id,
            phase=RequestPhase.WAITING,
            slot=None,
            num_prompt_tokens=0,
            num_prefilled_tokens=0,
            num_cached_tokens=0,
            num_output_tokens=0,
            age_s=age_s,
            tokens_per_second=None,
            drafter=None,
            num_draft_tokens=0,
            acceptance_rate=None,
            acceptance_length=None,
        )


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Bytes that one model holds, over all devices, as llama.cpp logged them."""

    weights_bytes: int = 0
    kv_bytes: int = 0
    compute_bytes: int = 0
    """Compute and output buffers."""
    by_device: dict[str, ModelMemory] = field(default_factory=dict)
    """The same bytes by device name; what lies in host memory is under `CPU`."""

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.kv_bytes + self.compute_bytes

    def __add__(self, other: ModelMemory) -> ModelMemory:
        names = self.by_device.keys() | other.by_device.keys()
        return ModelMemory(
            self.weights_bytes + other.weights_bytes,
            self.kv_bytes + other.kv_bytes,
            self.compute_bytes + other.compute_bytes,
            {name: self.on(name) + other.on(name) for name in names},
        )

    def on(self, device: str) -> ModelMemory:
        """The part on one device, nothing where nothing is."""
        return self.by_device.get(device, ModelMemory())


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """A device that can hold layers, as llama.cpp tells it (`ggml_backend_dev_get_props`)."""

    name: str
    """CUDA0, Vulkan0, MTL0, ...: the name in llama.cpp's buffer lines."""
    description: str
    device_id: str | None
    """PCI address, for example `0000:c1:00.0`; None where llama.cpp does not know it."""
    integrated: bool
    """It works in the host's own memory."""
    total_bytes: int | None
    free_bytes: int | None


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
    devices: tuple[DeviceMemory, ...] = ()
    """Devices beside the CPU that may hold layers."""


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

    @property
    def others_bytes(self) -> int | None:
        """What neither model holds and is not free."""
        if self.total_bytes is None or self.free_bytes is None:
            return None
        ours = self.target.total_bytes + self.drafter.total_bytes
        return max(self.total_bytes - self.free_bytes - ours, 0)


class Watch(StrEnum):
    """What the pressure monitor does."""

    IDLE = "idle"
    """There is nothing that it could withdraw."""
    ADMITTED = "admitted"
    """A drafter with memory of its own may be loaded."""
    WITHDRAWN = "withdrawn"
    """It may not, because of pressure."""


class Cause(StrEnum):
    """Why a drafter was withdrawn or readmitted."""

    LOW_MEMORY = "low_memory"
    STALLED = "stalled"
    EVICTED = "evicted"
    RECOVERED = "recovered"
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
    """Memory of the two models and of the box."""

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
