"""The Prometheus page: a status as text."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from homespec.stats import MAX_DRAFT_TOKENS, DraftStats
from homespec.status import (
    Cause,
    DraftState,
    MonitorStatus,
    Phase,
    PoolStatus,
    StartCause,
    Status,
    Watch,
)

DRAFTER_NAMES = ("draft", "eagle3", "mtp", "dflash", "dspark", "suffix", "ngram", "grammar")
_POOL_GAUGES = {
    "total_bytes": "Memory of a pool",
    "free_bytes": "Memory that could still be allocated without taking any from the target",
    "residents_bytes": "Memory of models that stay loaded while another one answers, mapped files not counted",
    "others_bytes": "Memory that no model of homespec's holds",
    "reserve_bytes": "Kept free for everyone else",
    "low_bytes": "Low water mark",
    "high_bytes": "High water mark",
}


def render(status: Status) -> bytes:
    """The Prometheus page. Every family is always present, at zero or without samples where a value is unknown."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(status))
    return generate_latest(registry)


class _Page:
    """One scrape."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        yield from self._engine()
        yield from self._traffic()
        yield from self._drafting("homespec_spec_decode")
        yield from self._vllm()
        yield from self._memory()

    def _engine(self) -> Iterator[Metric]:
        status = self._status
        phase = GaugeMetricFamily("homespec_phase", "1 for the daemon's phase, 0 for the others", labels=["phase"])
        for each in Phase:
            phase.add_metric([each.value], float(status.phase is each))
        yield phase
        yield _gauge("homespec_degraded", "1 while a GPU that was asked for is missed", float(bool(status.degraded)))
        yield _counter("homespec_engine_restarts", "Engine processes that died", status.engine.restarts)
        starts = CounterMetricFamily("homespec_engine_starts", "Engine processes started, by cause", labels=["cause"])
        for cause in StartCause:
            starts.add_metric([cause.value], status.engine.starts.get(cause, 0))
        yield starts
        unloads = CounterMetricFamily("homespec_idle_unloads", "Models unloaded while nobody asked", labels=["model"])
        for model in ("drafter", "target"):
            unloads.add_metric([model], status.engine.idle_unloads.get(model, 0))
        yield unloads
        yield _gauge("homespec_uptime_seconds", "Age of the daemon", status.uptime_s)
        yield _gauge("homespec_load_progress_ratio", "Progress of loading the target", status.load_progress)
        state = GaugeMetricFamily("homespec_drafter_ready", "1 when the drafter may be used", labels=["drafter"])
        known = {drafter.name: drafter for drafter in status.speculation.drafters} if status.speculation else {}
        for name in DRAFTER_NAMES:
            ready = name in known and known[name].state is DraftState.READY
            state.add_metric([name], float(ready))
        yield state

    def _traffic(self) -> Iterator[Metric]:
        status, counters = self._status, self._status.counters
        yield _counter("homespec_requests", "Requests taken on by the engine", counters.requests)
        yield _counter("homespec_prompt_tokens", "Prompt tokens computed", counters.prompt_tokens)
        yield _counter("homespec_cached_prompt_tokens", "Prompt tokens reused", counters.cached_tokens)
        yield _counter("homespec_output_tokens", "Tokens generated", counters.output_tokens)
        yield _counter("homespec_rounds", "Target passes that produced tokens", counters.rounds)
        yield _counter("homespec_preemptions", "Sequences put back for want of KV memory", counters.preemptions)
        yield _counter("homespec_draft_seconds", "Time that drafters took", counters.draft_s)
        yield _counter("homespec_verify_seconds", "Time that the target's passes took in rounds", counters.verify_s)
        yield _gauge("homespec_requests_running", "Requests in a slot", status.queue.running)
        yield _gauge("homespec_requests_waiting", "Requests waiting for a slot", status.queue.waiting)
        first = status.first_token
        text = "Seconds from a request's arrival to its first token"
        yield SummaryMetricFamily(
            "homespec_time_to_first_token_seconds", text, count_value=first.count, sum_value=first.total_s
        )
        skipped = CounterMetricFamily(
            "homespec_skipped_drafts", "Times a sequence went through a round without a draft", labels=["reason"]
        )
        for reason, count in sorted(counters.skipped_drafts.items()):
            skipped.add_metric([reason], count)
        yield skipped

    def _drafting(self, prefix: str) -> Iterator[Metric]:
        families = (
            ("num_drafts", "Rounds with a draft"),
            ("num_draft_tokens", "Tokens drafted"),
            ("num_accepted_tokens", "Draft tokens accepted"),
        )
        for field, text in families:
            family = CounterMetricFamily(f"{prefix}_{field}", text, labels=["drafter"])
            for name in DRAFTER_NAMES:
                family.add_metric([name], getattr(self._status.drafts.get(name, DraftStats()), field))
            yield family

    def _vllm(self) -> Iterator[Metric]:
        """vLLM's names, summed over drafters, for tools that know them."""
        total = DraftStats()
        for stats in self._status.drafts.values():
            total.add(stats)
        prefix = "vllm:spec_decode"
        yield _counter(f"{prefix}_num_drafts", "Rounds with a draft", total.num_drafts)
        yield _counter(f"{prefix}_num_draft_tokens", "Tokens drafted", total.num_draft_tokens)
        yield _counter(f"{prefix}_num_accepted_tokens", "Draft tokens accepted", total.num_accepted_tokens)
        positions = CounterMetricFamily(
            f"{prefix}_num_accepted_tokens_per_pos", "Draft tokens accepted, by position", labels=["position"]
        )
        for position in range(MAX_DRAFT_TOKENS):
            counts = total.num_accepted_per_position
            positions.add_metric([str(position)], counts[position] if position < len(counts) else 0)
        yield positions

    def _memory(self) -> Iterator[Metric]:
        memory = self._status.memory
        parts = GaugeMetricFamily("homespec_memory_bytes", "Memory held, by model and kind", labels=["model", "kind"])
        for model in ("target", "drafter") if memory else ():
            held = getattr(memory, model)
            for kind in ("weights", "kv", "compute"):
                parts.add_metric([model, kind], getattr(held, f"{kind}_bytes"))
        yield parts
        gauges = (
            ("homespec_engine_resident_bytes", "Resident memory of the engine", "engine_rss_bytes"),
            ("homespec_host_available_bytes", "Memory the box has left", "host_available_bytes"),
            ("homespec_kv_used_tokens", "Tokens in the KV cache", "kv_used_tokens"),
            ("homespec_kv_total_tokens", "Tokens the KV cache can hold", "kv_total_tokens"),
        )
        for name, text, field in gauges:
            yield _gauge(name, text, getattr(memory, field, None))
        yield from self._pools(memory.pools if memory else ())
        yield from self._pressure(memory.monitor if memory else None)

    def _pools(self, pools: tuple[PoolStatus, ...]) -> Iterator[Metric]:
        for field, text in _POOL_GAUGES.items():
            family = GaugeMetricFamily(f"homespec_pool_{field}", text, labels=["pool"])
            for pool in pools:
                if (value := getattr(pool, field)) is not None:
                    family.add_metric([pool.name], value)
            yield family

    def _pressure(self, monitor: MonitorStatus | None) -> Iterator[Metric]:
        changes = CounterMetricFamily(
            "homespec_drafter_transitions", "Drafters withdrawn or readmitted for memory, by cause", labels=["cause"]
        )
        for cause in Cause:
            changes.add_metric([cause.value], monitor.counts[cause] if monitor else 0)
        yield changes
        gauges = (
            ("homespec_memory_stall_ratio", "Share of the last second stalled on memory", "stall_share"),
            ("homespec_engine_major_faults_per_second", "Pages read back from disk", "major_faults_per_s"),
            ("homespec_target_resident_ratio", "Share of the target's file in memory", "resident_share"),
        )
        for name, text, field in gauges:
            yield _gauge(name, text, getattr(monitor, field, None))
        withdrawn = monitor is not None and monitor.watch is Watch.WITHDRAWN
        yield _gauge("homespec_drafter_withdrawn", "1 while memory pressure keeps the drafter out", float(withdrawn))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric([], value)
    return family
