"""What engines have done over the daemon's life, and the rates of the last seconds."""

from __future__ import annotations

from collections import Counter, deque

from homespec.stats import DraftStats
from homespec.status import EngineCounters, EngineSnapshot, ThroughputStatus

WINDOW_S = 3.0


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
