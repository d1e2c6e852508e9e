"""How many threads decode: one count for a single row and one for batches, whichever are fastest here.

A single row waits for memory, and fewer threads than there are cores may read as fast; a batch computes, and may gain
from all of them. Only time depends on the counts where the exactness probe, which runs afterwards, says `strict`.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import msgspec
import numpy as np
import psutil

from homespec.engine.kept import NUM_RUNS, Kept, context_key
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context

_ROWS = 8
"""Of a batch: about as many as a round verifies."""
_PREFIX = 32
_REPEATS = 3
_BUDGET_S = 2.0
_BETTER = 0.95
"""Share of the usual count's time that another one must stay below: less may be chance."""


def usable_cpus() -> list[int]:
    """Numbers of the logical cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def usable_cores() -> int:
    """How many they are."""
    return len(usable_cpus())


def default_threads() -> int:
    """Physical cores that this process may use: sharing a core with another thread makes both decode slower."""
    usable = usable_cores()
    return max(1, min(usable, psutil.cpu_count(logical=False) or usable))


def candidates(usual: int, usable: int) -> list[int]:
    """Thread counts worth trying, the usual one first."""
    counts = dict.fromkeys((usual, usable, usual - 1, usual // 2))
    return [count for count in counts if 1 <= count <= max(usual, usable)]


def fastest(seconds: Mapping[int, float], usual: int) -> int:
    """The count that takes least; the usual one unless another is clearly better."""
    best = min(seconds, key=lambda count: seconds[count])
    return best if seconds[best] < _BETTER * seconds[usual] else usual


class Timings(msgspec.Struct, frozen=True):
    """Least seconds by thread count: others on the box only make passes longer."""

    single: dict[int, float]
    """Of one row."""
    batch: dict[int, float]
    num_runs: int = 1
    """Starts that they were taken at."""

    def with_earlier(self, earlier: Timings) -> Timings:
        """The least of both; needs the same counts."""
        return Timings(
            {count: min(seconds, earlier.single[count]) for count, seconds in self.single.items()},
            {count: min(seconds, earlier.batch[count]) for count, seconds in self.batch.items()},
            self.num_runs + earlier.num_runs,
        )


class ThreadChoice:
    """Of one context: kept from earlier runs, measured while there is nothing else to do, or both."""

    def __init__(self, context: Context, *, is_free: bool, kept: Kept | None = None) -> None:
        """is_free: nobody has set the count, and the CPU decodes. What was kept is used at once."""
        self._context = context
        self._kept = kept or Kept("threads")
        self._key = context_key(context)
        self._usual = context.params.n_threads
        self._candidates = candidates(self._usual, usable_cores())
        has_choice = is_free and len(self._candidates) > 1 and context.n_ctx >= 2 * (_PREFIX + _ROWS)
        self._earlier = self._read() if has_choice else None
        if self._earlier is not None:
            self._use(self._earlier)
        self.is_known = not has_choice or self._earlier is not None
        """Whether the counts are more than the usual ones."""
        self.is_pending = has_choice and (self._earlier is None or self._earlier.num_runs < NUM_RUNS)
        """Whether there is something to measure."""

    def measure(self, seq_id: int) -> Iterator[None]:
        """Measure, and use what is fastest unless something was kept; one short call to the library per step.

        Uses the KV cache of `seq_id` and leaves it empty. Between the steps the counts are those from before.
        """
        single: defaultdict[int, list[float]] = defaultdict(list)
        batch: defaultdict[int, list[float]] = defaultdict(list)
        run = _Runner(self._context, seq_id)
        was_cut = False
        try:
            run.decode(0, _PREFIX)
            yield
            for count in self._candidates * _REPEATS:
                with self._set_to(count):
                    run.decode(_PREFIX, 1)  # the first pass with another count starts its threads
                    single[count].append(run.decode(_PREFIX, 1))
                    batch[count].append(run.decode(_PREFIX, _ROWS))
                was_cut = was_cut or self._context.crew.is_cut
                yield
                if run.spent_s > _BUDGET_S and len(single) == len(self._candidates):
                    break
            self._take(Timings(_least(single), _least(batch)), is_kept=not was_cut)
        finally:
            self._context.clear(seq_id)

    def _take(self, timings: Timings, *, is_kept: bool) -> None:
        """is_kept: no other work took threads away meanwhile."""
        if self._earlier is None:
            self._use(timings)
        else:
            # From the next start on: what is known of the exactness of this one was found with its counts.
            timings = timings.with_earlier(self._earlier)
        self.is_known, self.is_pending = True, False
        if is_kept:
            self._kept.put(self._key, msgspec.to_builtins(timings, str_keys=True))

    def _use(self, timings: Timings) -> None:
        self._context.set_threads(fastest(timings.single, self._usual), fastest(timings.batch, self._usual))

    @contextmanager
    def _set_to(self, count: int) -> Iterator[None]:
        params = self._context.params
        self._context.set_threads(count, count)
        try:
            yield
        finally:
            self._context.set_threads(params.n_threads, params.n_threads_batch or params.n_threads)

    def _read(self) -> Timings | None:
        """None when this is not what `measure` keeps, or of a machine with other cores."""
        with suppress(msgspec.ValidationError):
            timings = msgspec.convert(self._kept.get(self._key), Timings, str_keys=True)
            if set(timings.single) == set(timings.batch) == set(self._candidates):
                return timings
        return None


def _least(samples: Mapping[int, Sequence[float]]) -> dict[int, float]:
    return {count: min(seconds) for count, seconds in samples.items()}


class _Runner:
    """Times passes over a text that does not matter."""

    def __init__(self, context: Context, seq_id: int) -> None:
        self._context = context
        self._seq_id = seq_id
        self._batch = Batch(context.params.n_batch)
        tokens = np.random.default_rng(0).integers(0, context.model.vocab.n_vocab, _PREFIX + _ROWS)
        self._token_ids = [int(token) for token in tokens]
        self.spent_s = 0.0

    def decode(self, position: int, count: int) -> float:
        """Seconds; the rows are taken back again, but for those of the prefix."""
        checkpoint = self._context.checkpoint(self._seq_id, position) if position else None
        self._batch.clear()
        tokens = self._token_ids[position : position + count]
        self._batch.add(tokens, position, self._seq_id, num_outputs=min(count, _ROWS))
        started = time.perf_counter()
        self._context.decode(self._batch)
        self._context.logits()
        seconds = time.perf_counter() - started
        if checkpoint is not None:
            self._context.roll_back(self._seq_id, checkpoint)
        self.spent_s += seconds
        return seconds
