"""Snapshots for tests: a daemon that loads, one that speculates, one that bets, one without a drafter.

Every number is distinct.
"""

from __future__ import annotations

from dataclasses import replace

from homespec.memory_plan import MemoryPlan, PlannedModel, Verdict
from homespec.stats import DraftStats
from homespec.status import (
    Cause,
    ControllerStatus,
    DrafterStatus,
    DraftState,
    EngineCounters,
    EngineStatus,
    Event,
    FirstTokenStatus,
    MemoryStatus,
    ModelMemory,
    ModelStatus,
    MonitorStatus,
    Phase,
    PoolStatus,
    QueueStatus,
    ReliabilityBin,
    RequestPhase,
    RequestStatus,
    SpeculationStatus,
    Status,
    ThroughputStatus,
    Transition,
    VerifyTable,
    Watch,
)
from homespec.units import GIB, MIB

NOW_UNIX = 1_764_441_000.0

MODEL = ModelStatus(
    id="SmolLM2-135M-Instruct-Q4_1",
    path="/models/smollm2.gguf",
    description="llama 135M Q4_1",
    architecture="llama",
    num_params=134_515_008,
    size_bytes=98 * MIB,
    n_vocab=49152,
    n_layer=30,
    n_ctx=8192,
    n_ctx_train=8192,
    slots=4,
    kv_type="f16",
    flash_attention=True,
    threads=2,
    devices=("CPU",),
    chat_template="gguf",
)

SUFFIX_STATS = DraftStats(120, 480, 298, [98, 79, 66, 55])

DRAFTERS = (
    DrafterStatus("draft", DraftState.OFF, "does not fit: needs 412.0 MiB, headroom is 230.1 MiB"),
    DrafterStatus("mtp", DraftState.OFF, "the target has no MTP heads"),
    DrafterStatus("eagle3", DraftState.OFF, "no EAGLE-3 head was given"),
    DrafterStatus("dflash", DraftState.OFF, "no DFlash drafter was given"),
    DrafterStatus("dspark", DraftState.OFF, "no DFlash drafter was given"),
    DrafterStatus("ngram", DraftState.READY, "free: looks the prompt up"),
    DrafterStatus("suffix", DraftState.READY, "free: matches of 12 tokens on average"),
    DrafterStatus("grammar", DraftState.READY, "free: drafts what a grammar forces"),
)

SPECULATION = SpeculationStatus(
    mode="auto",
    drafter="suffix",
    state=DraftState.READY,
    reason="matches of 12 tokens: 3.48 tokens per pass at D 4 beat 1.00 without drafting",
    max_draft_tokens=15,
    drafters=DRAFTERS,
    totals={"suffix": SUFFIX_STATS},
)


HOST = PoolStatus(
    name="host",
    description="main memory",
    total_bytes=8 * GIB,
    free_bytes=5 * GIB,
    source="MemAvailable",
    target=ModelMemory(98 * MIB, 180 * MIB, 26 * MIB),
    drafter=ModelMemory(),
    reserve_bytes=410 * MIB,
    low_bytes=205 * MIB,
    high_bytes=411 * MIB,
)

MONITOR = MonitorStatus(
    watch=Watch.ADMITTED,
    reason="host has 5.00 GiB free, low mark 205.0 MiB",
    stall_share=0.0,
    major_faults_per_s=0.0,
    resident_share=1.0,
    counts=dict.fromkeys(Cause, 0),
    transitions=(),
)


def request(number: int, **fields: object) -> RequestStatus:
    """A request in decode; its id ends in the number."""
    running = RequestStatus(
        id=f"chatcmpl-7f3a9c{number:04d}",
        phase=RequestPhase.DECODE,
        slot=number,
        num_prompt_tokens=512,
        num_prefilled_tokens=512,
        num_cached_tokens=128,
        num_output_tokens=217 + number,
        age_s=5.25,
        tokens_per_second=41.5 + number,
        drafter="suffix",
        num_draft_tokens=4,
        acceptance_rate=0.62,
        acceptance_length=3.48,
    )
    return replace(running, **fields)  # type: ignore[arg-type]


def prefilling(number: int) -> RequestStatus:
    """A request that has said nothing yet."""
    return request(
        number,
        phase=RequestPhase.PREFILL,
        num_output_tokens=0,
        tokens_per_second=None,
        drafter=None,
        num_draft_tokens=0,
        acceptance_rate=None,
        acceptance_length=None,
    )


def waiting(number: int) -> RequestStatus:
    """A request that has no slot yet."""
    nowhere = {"slot": None, "num_prefilled_tokens": 0, "num_cached_tokens": 0}
    return replace(prefilling(number), phase=RequestPhase.WAITING, **nowhere)  # type: ignore[arg-type]


def speculating() -> Status:
    """Two answers in flight, one prompt being read, `suffix` drafting well."""
    return Status(
        version="0.1.0",
        time_unix=NOW_UNIX,
        uptime_s=11_106.0,
        phase=Phase.READY,
        detail="ready",
        load_progress=1.0,
        exactness="strict",
        exactness_reason="512 rows compared, 0 bits differ",
        model=MODEL,
        engine=EngineStatus(pid=4711, restarts=2, last_exit="killed by signal 9", progress=99, progress_age_s=0.1),
        queue=QueueStatus(running=3, waiting=1, limit=64),
        throughput=ThroughputStatus(83.1, 412.6, 0.62, 3.48, 4.1),
        speculation=SPECULATION,
        counters=EngineCounters(
            rounds=20_412,
            requests=42,
            prompt_tokens=12_345,
            cached_tokens=4_567,
            output_tokens=56_789,
            preemptions=3,
            skipped_drafts={"no match": 812, "would not pay": 97},
        ),
        drafts={"suffix": SUFFIX_STATS, "ngram": DraftStats(20, 60, 15, [9, 4, 2])},
        requests=(
            request(0),
            request(1, drafter=None, num_draft_tokens=0, acceptance_rate=None, acceptance_length=1.0),
            replace(prefilling(2), num_prefilled_tokens=230),
            waiting(3),
        ),
        memory=MemoryStatus(
            target=ModelMemory(98 * MIB, 180 * MIB, 26 * MIB),
            drafter=ModelMemory(),
            kv_used_tokens=1_966,
            kv_total_tokens=8_192,
            engine_rss_bytes=345 * MIB,
            host_total_bytes=8 * GIB,
            host_available_bytes=5 * GIB,
            pools=(HOST,),
            monitor=MONITOR,
        ),
        events=(
            Event(NOW_UNIX - 90_000, "daemon", "started"),
            Event(NOW_UNIX - 640, "engine", "restarted: killed by signal 9; 1 request was replayed"),
            Event(NOW_UNIX - 630, "model", "SmolLM2-135M-Instruct-Q4_1 is ready on CPU"),
            Event(NOW_UNIX - 12, "drafter", "draft off: does not fit, needs 412.0 MiB, headroom is 230.1 MiB"),
        ),
        first_token=FirstTokenStatus(count=42, total_s=9.6, last_s=0.184, median_s=0.229),
    )


CONTROLLER = ControllerStatus(
    costs="measured",
    plain_ms=11.9,
    row_costs={2: 1.31, 4: 1.38, 8: 2.77},
    draft_costs={"draft": 0.05},
    paused={"ngram": "paused for 64 rounds: 0.91× plain over the last 40"},
    predicted_speedup=1.44,
    measured_speedup=1.52,
    decision_us=41.0,
    verify_table=VerifyTable(
        contexts=(32, 1024),
        rows=(1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64),
        ms=(
            (11.9, 15.6, 17.2, 16.4, 24.0, 26.5, 33.0, 48.1, 63.9, 95.0, 126.0, 188.0, 250.0),
            (13.0, 17.1, 18.8, 18.1, 26.6, 29.3, 36.9, 53.5, 71.4, 105.9, 140.3, 209.0, 278.0),
        ),
    ),
    draft_ms={"draft": {1: 0.6, 4: 2.2, 16: 8.6}},
    threads=(2, 1),
    state_copy_ms=0.7,
    reliability={
        "suffix": (
            ReliabilityBin(0.0, 0.1, 40, 0.05, 0.08),
            ReliabilityBin(0.4, 0.55, 212, 0.44, 0.47),
            ReliabilityBin(0.98, 1.0, 913, 0.97, 0.96),
        ),
        "ngram": (ReliabilityBin(None, None, 31, 0.61, 0.58),),
    },
)

PLAN = MemoryPlan(
    target=PlannedModel(98 * MIB, 180 * MIB, 25 * MIB, 12 * MIB, n_ctx=8192, kv_type="bf16", measured=True),
    drafter=None,
    verdicts=(
        Verdict(
            "/models/drafter.gguf",
            is_admitted=False,
            reason="does not fit: 412.0 MiB needed on host and the target leaves 230.1 MiB",
            needed_bytes=412 * MIB,
            expected_speedup=1.61,
            num_draft_tokens=4,
        ),
        Verdict(None, is_admitted=True, reason="take no memory worth counting"),
    ),
    changes=("context: 8192 tokens, because 16384 would need 360.0 MiB more",),
)


def betting() -> Status:
    """The same, with a controller that decides, a plan that was made, and a drafter that came back after pressure."""
    status = speculating()
    assert status.speculation is not None
    assert status.memory is not None
    transitions = (
        Transition(NOW_UNIX - 300, Watch.WITHDRAWN, Cause.LOW_MEMORY, "host has 96.0 MiB free, low mark 205.0 MiB"),
        Transition(NOW_UNIX - 240, Watch.ADMITTED, Cause.RECOVERED, "host has 5.00 GiB free for 30 s"),
    )
    monitor = replace(MONITOR, counts={Cause.LOW_MEMORY: 1, Cause.RECOVERED: 1}, transitions=transitions)
    first, second, *rest = status.requests
    return replace(
        status,
        speculation=replace(status.speculation, controller=CONTROLLER),
        memory=replace(status.memory, plan=PLAN, monitor=monitor),
        requests=(
            replace(first, decision="suffix D=4: expected 3.1 tokens for 1.4 T(1)"),
            replace(second, decision="off: draft would cost 0.38 T(1) for 0.21 tokens"),
            *rest,
        ),
    )


def plain() -> Status:
    """One answer in flight, drafting switched off by the user."""
    drafters = tuple(replace(drafter, state=DraftState.OFF, reason="switched off") for drafter in DRAFTERS)
    off = replace(
        SPECULATION, mode="off", drafter=None, state=DraftState.OFF, reason="switched off by request", drafters=drafters
    )
    return replace(
        speculating(),
        speculation=replace(off, totals={}),
        drafts={},
        throughput=ThroughputStatus(24.8, None, None, 1.0, None),
        queue=QueueStatus(running=1, waiting=0, limit=64),
        requests=(request(1, drafter=None, num_draft_tokens=0, acceptance_rate=None, acceptance_length=1.0),),
    )


def squeezed() -> Status:
    """The drafter was dropped under memory pressure, in the middle of an answer."""
    reason = "dropped: 96.0 MiB free, low-water mark is 256.0 MiB"
    drafters = (DrafterStatus("draft", DraftState.OFF, reason), *DRAFTERS[1:])
    off = replace(SPECULATION, drafter=None, state=DraftState.OFF, reason=reason, drafters=drafters)
    dropped = Transition(NOW_UNIX - 5, Watch.WITHDRAWN, Cause.LOW_MEMORY, reason)
    monitor = replace(MONITOR, watch=Watch.WITHDRAWN, reason=reason, transitions=(dropped,))
    status = speculating()
    assert status.memory is not None
    return replace(status, speculation=off, memory=replace(status.memory, monitor=monitor))


def loading(progress: float = 0.45) -> Status:
    """The daemon answers while the model loads: nothing is known yet."""
    return replace(
        speculating(),
        phase=Phase.LOADING,
        detail="reading weights",
        load_progress=progress,
        exactness="distribution",
        exactness_reason="not probed yet",
        uptime_s=3.2,
        model=None,
        engine=EngineStatus(pid=4711, restarts=0, last_exit=None, progress=0, progress_age_s=None),
        queue=QueueStatus(running=0, waiting=0, limit=64),
        throughput=ThroughputStatus(None, None, None, None, None),
        speculation=None,
        counters=EngineCounters(),
        drafts={},
        requests=(),
        memory=None,
        events=(),
    )
