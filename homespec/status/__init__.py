"""The state that everyone looks at: what the engine reports, /status answers and the dashboard draws.

One set of frozen records serves the frames between the processes, the JSON on the wire and the widgets, so the three
cannot disagree. No field ever holds text of a prompt or an answer. Unknown is None, never a guess.
"""

from __future__ import annotations

from homespec.status.daemon import (
    Event,
    FirstTokenStatus,
    OfferStatus,
    Phase,
    QueueStatus,
    Residence,
    Status,
    ThroughputStatus,
)
from homespec.status.drafting import (
    ControllerStatus,
    DrafterStatus,
    DraftState,
    ReliabilityBin,
    SpeculationStatus,
    VerifyTable,
)
from homespec.status.engine import (
    DECODING_WITH,
    EXACTNESS_PENDING,
    EngineCounters,
    EngineSnapshot,
    EngineStatus,
    StartCause,
)
from homespec.status.memory import (
    Cause,
    MemoryStatus,
    MonitorStatus,
    PoolStatus,
    ResidentStatus,
    Transition,
    Watch,
)
from homespec.status.model import (
    ChatFormat,
    DeviceMemory,
    EmbeddingStatus,
    ModelMemory,
    ModelStatus,
)
from homespec.status.request import (
    RequestPhase,
    RequestStatus,
    SpeculationReport,
    Timings,
)

__all__ = [
    "DECODING_WITH",
    "EXACTNESS_PENDING",
    "Cause",
    "ChatFormat",
    "ControllerStatus",
    "DeviceMemory",
    "DraftState",
    "DrafterStatus",
    "EmbeddingStatus",
    "EngineCounters",
    "EngineSnapshot",
    "EngineStatus",
    "Event",
    "FirstTokenStatus",
    "MemoryStatus",
    "ModelMemory",
    "ModelStatus",
    "MonitorStatus",
    "OfferStatus",
    "Phase",
    "PoolStatus",
    "QueueStatus",
    "ReliabilityBin",
    "RequestPhase",
    "RequestStatus",
    "Residence",
    "ResidentStatus",
    "SpeculationReport",
    "SpeculationStatus",
    "StartCause",
    "Status",
    "ThroughputStatus",
    "Timings",
    "Transition",
    "VerifyTable",
    "Watch",
]
