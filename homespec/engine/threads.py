"""How many threads decode: one count for a single row and one for batches, whichever are fastest here.

A single row waits for memory, and fewer threads than there are cores may read as fast; a batch computes, and may gain
from all of them. Only time depends on the counts where the exactness probe, which runs afterwards, says `strict`.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import psutil

from homespec.engine.kept import Kept, context_key
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


def fastest(seconds: Mapping[int, Sequence[float]], usual: int) -> int:
    """The count whose best time is least, for others on the box only make passes longer; the usual one unless another
    is clearly better."""
    least = {count: min(samples) for count, samples in seconds.items()}
    best = min(least, key=lambda count: least[count])
    return best if least[best] < _BETTER * least[usual] else usual


class ThreadChoice:
    """Of one context: kept from an earlier run, or measured while there is nothing else to do."""

    def __init__(self, context: Context, *, is_free: bool, kept: Kept | None = None) -> None:
        """is_free: nobody has set the count, and the CPU decodes. What was kept is used at once."""
        self._context = context
        self._kept = kept or Kept("threads")
        self._key = context_key(context)
        self._usual = context.params.n_threads
        self._candidates = candidates(self._usual, usable_cores())
        has_choice = is_free and len(self._candidates) > 1 and context.n_ctx >= 2 * (_PREFIX + _ROWS)
        self.is_pending = has_choice and not self._use(self._kept.get(self._key))

    def measure(self, seq_id: int) -> Iterator[None]:
        """Measure and use what is fastest; one short call to the library per step.

        Uses the KV cache of `seq_id` and leaves it empty, and the threads as they were when closed early.
        """
        single: defaultdict[int, list[float]] = defaultdict(list)
        batch: defaultdict[int, list[float]] = defaultdict(list)
        run = _Runner(self._context, seq_id)
        counts = (self._usual, self._usual)
        was_cut = False
        try:
            run.decode(0, _PREFIX)
            yield
            for count in self._candidates * _REPEATS:
                self._context.set_threads(count, count)
                run.decode(_PREFIX, 1)  # the first pass with another count starts its threads
                single[count].append(run.decode(_PREFIX, 1))
                batch[count].append(run.decode(_PREFIX, _ROWS))
                was_cut = was_cut or self._context.crew.is_cut
                yield
                if run.spent_s > _BUDGET_S and len(single) == len(self._candidates):
                    break
            counts = fastest(single, self._usual), fastest(batch, self._usual)
            self.is_pending = False
            if not was_cut:
                self._kept.put(self._key, counts)
        finally:
            self._context.set_threads(*counts)
            self._context.clear(seq_id)

    def _use(self, kept: Any) -> bool:
        """False when this is not what `measure` keeps, or of a machine with more cores."""
        if not isinstance(kept, list) or len(kept) != 2 or not all(count in self._candidates for count in kept):
            return False
        self._context.set_threads(*kept)
        return True


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
