"""Counters over the daemon's life, rates over the last seconds, and their Prometheus text."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

from homespec.stats import MAX_DRAFT_TOKENS, DraftStats
from homespec.status import (
    Cause,
    DraftState,
    EngineCounters,
    EngineSnapshot,
    MonitorStatus,
    Phase,
    PoolStatus,
    StartCause,
    Status,
    ThroughputStatus,
    Watch,
)

WINDOW_S = 3.0
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


class Ledger:
    """Adds up what engines report: an engine counts from zero, the daemon's totals never go back."""

    def __init__(self) -> None:
        self.snapshot: EngineSnapshot | None = None
        self._past = EngineCounters()
        self._past_drafts: dict[str, DraftStats] = {}
        self._window: deque[tuple[float, EngineCounters, DraftStats]] = deque()

    def observe(self, snapshot: EngineSnapshot, now: float) -> None:
        self.snapshot = snapshot
        drafts = DraftStats()
        for stats in self.drafts().values():
            drafts.add(stats)
        self._window.append((now, self.counters(), drafts))
        # The sample before the window is kept, so the rates span all of it.
        while len(self._window) > 2 and self._window[1][0] <= now - WINDOW_S:
            self._window.popleft()

    def engine_gone(self) -> None:
        """The engine is dead: keep what it had counted."""
        self._past, self._past_drafts = self.counters(), self.drafts()
        self.snapshot = None

    def engine_back(self, snapshot: EngineSnapshot, now: float) -> None:
        """An engine that was taken to be gone, with this as its last word, goes on counting."""
        self._past = _sum(self._past, snapshot.counters, sign=-1)
        for name, stats in snapshot.speculation.totals.items():
            self._past_drafts[name].add(stats, sign=-1)
        self.observe(snapshot, now)

    def counters(self) -> EngineCounters:
        """Totals since the daemon started."""
        return _sum(self._past, self.snapshot.counters) if self.snapshot else self._past

    def drafts(self) -> dict[str, DraftStats]:
        """Totals per drafter since the daemon started."""
        totals = {name: stats.copy() for name, stats in self._past_drafts.items()}
        for name, stats in self.snapshot.speculation.totals.items() if self.snapshot else ():
            totals.setdefault(name, DraftStats()).add(stats)
        return totals

    def throughput(self, now: float) -> ThroughputStatus:
        """Rates over the last seconds; None where nothing happened."""
        recent = [sample for sample in self._window if sample[0] > now - 2 * WINDOW_S]
        if len(recent) < 2:
            return ThroughputStatus(None, None, None, None, None)
        (start, first, first_drafts), (end, last, last_drafts) = recent[0], recent[-1]
        drafts = last_drafts.copy()
        drafts.add(first_drafts, sign=-1)
        plain = sum(last.skipped_drafts.values()) - sum(first.skipped_drafts.values())
        passes = drafts.num_drafts + plain
        return ThroughputStatus(
            tokens_per_second=_rate(last.output_tokens - first.output_tokens, end - start),
            prompt_tokens_per_second=_rate(last.prompt_tokens - first.prompt_tokens, end - start),
            acceptance_rate=drafts.acceptance_rate,
            acceptance_length=1 + drafts.num_accepted_tokens / passes if passes else None,
            draft_length=drafts.draft_length,
        )


def _sum(left: EngineCounters, right: EngineCounters, sign: int = 1) -> EngineCounters:
    skipped = Counter(left.skipped_drafts)
    for reason, count in right.skipped_drafts.items():
        skipped[reason] += sign * count
    return EngineCounters(
        rounds=left.rounds + sign * right.rounds,
        requests=left.requests + sign * right.requests,
        prompt_tokens=left.prompt_tokens + sign * right.prompt_tokens,
        cached_tokens=left.cached_tokens + sign * right.cached_tokens,
        output_tokens=left.output_tokens + sign * right.output_tokens,
        preemptions=left.preemptions + sign * right.preemptions,
        draft_s=left.draft_s + sign * right.draft_s,
        verify_s=left.verify_s + sign * right.verify_s,
        skipped_drafts=dict(skipped),
    )


def _rate(count: int, seconds: float) -> float | None:
    return count / seconds if count and seconds > 0 else None


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
