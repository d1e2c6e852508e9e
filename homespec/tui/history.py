"""The last minutes of the numbers that are drawn over time. Bounded: memory stays flat for days."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from homespec.status import Status

MIN_COLUMN_S = 1.0
"""Narrower columns would miss snapshots that come twice a second and show gaps that are not there."""


class Sample(NamedTuple):
    """What one snapshot said, and when it came; None where the daemon was idle or did not know."""

    time_s: float
    tokens_per_second: float | None
    acceptance_length: float | None
    draft_length: float | None
    kv_used: float | None
    """Used share of the KV cache."""


def sample_of(status: Status, time_s: float) -> Sample:
    """The drawn numbers of a snapshot."""
    rates, memory = status.throughput, status.memory
    kv_used = memory.kv_used_tokens / memory.kv_total_tokens if memory and memory.kv_total_tokens else None
    return Sample(time_s, rates.tokens_per_second, rates.acceptance_length, rates.draft_length, kv_used)


class History:
    """A ring of samples in the order they came, with times from one monotonic clock.

    A sample that comes within `spacing_s` of the kept one before it is dropped, so a flood cannot push out the past.
    Twice the span is kept, because a very wide chart reaches further back than the span.
    """

    def __init__(self, span_s: float = 120.0, spacing_s: float = 0.25) -> None:
        self.span_s = span_s
        self._spacing_s = spacing_s
        self._samples: deque[Sample] = deque(maxlen=max(int(2 * span_s / spacing_s), 1))

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def latest(self) -> Sample | None:
        return self._samples[-1] if self._samples else None

    def add(self, sample: Sample) -> None:
        """Keep the sample, unless it comes too soon after the last one kept."""
        if self.latest is None or sample.time_s - self.latest.time_s >= self._spacing_s:
            self._samples.append(sample)

    def series(self, metric: Callable[[Sample], float | None], columns: int) -> list[float | None]:
        """Means per column of time, the newest last; None where nothing was known.

        Columns are cut at fixed moments, so a finished column keeps its value while the chart moves on.
        """
        column_s = max(self.span_s / max(columns, 1), MIN_COLUMN_S)
        buckets: list[list[float]] = [[] for _ in range(columns)]
        last = int(self.latest.time_s // column_s) if self.latest else 0
        for sample in self._samples:
            column = columns - 1 - (last - int(sample.time_s // column_s))
            value = metric(sample)
            if value is not None and 0 <= column < columns:
                buckets[column].append(value)
        return [sum(bucket) / len(bucket) if bucket else None for bucket in buckets]
