"""Measuring what rows and drafts cost on the loaded models, in short steps while there is nothing else to do."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from homespec.engine.control.cost import CostTable
from homespec.engine.control.guidelines import tile_draft_tokens
from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.sampling.coupled import CoupledSampler
from homespec.errors import KvCacheFull
from homespec.frames import Sampling
from homespec.stats import MAX_DRAFT_TOKENS

ROWS = (1, 2, 4, 8, 16, 3, 5, 6, 12, 7, 9, 10, 13, 17, 24, 32, 48, 64)
"""Row counts to measure, the most telling ones first: kernels work on groups of rows, so costs have steps."""
SHORT, LONG = 32, (2048, 1024, 512, 256)
"""Tokens of context; of the long ones, the longest that can be decoded in its share of the budget."""
LONG_ROWS = (1, 2, 4, 8, 16)
BUDGET_S = 8.0
_LONG_SHARE = 0.4
_REPEATS = 5
_CHUNK = 64
_DRAFTS = (1, 2, 4, 8, 16)


class Calibration:
    """A measurement of the target that can be interrupted: samples are kept, the KV cache of its sequence is not.

    It has a time budget; what is slow is measured at fewer row counts, fewer times, or in a short context only.
    """

    def __init__(self, context: Context, seq_id: int, *, budget_s: float = BUDGET_S) -> None:
        self._context = context
        self._seq_id = seq_id
        self._budget_s = budget_s
        self._spent_s = 0.0
        self._samples: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
        """Seconds, by context and rows."""
        self._rewinds: list[float] = []
        """Seconds that it takes to be able to take rows back, and to do so, where a state must be copied for it."""
        self._batch = Batch(context.params.n_batch)
        tiles = tile_draft_tokens(context.model.query_heads_per_kv_head, MAX_DRAFT_TOKENS)
        rows = dict.fromkeys([*ROWS, *(1 + num_tokens for num_tokens in tiles)])
        self._rows = tuple(row for row in rows if row <= context.params.n_outputs_max)
        generator = np.random.default_rng(0)
        high = context.model.vocab.n_vocab
        self._token_ids = [int(token) for token in generator.integers(0, high, LONG[0] + max(self._rows))]
        self._steps: Iterator[None] | None = None
        self.is_done = False

    def step(self) -> None:
        """One short call to the library."""
        if self._steps is None:
            self._steps = self._measure()
        try:
            next(self._steps)
        except StopIteration:
            self.is_done = True
        except KvCacheFull:
            self.interrupt()
            self.is_done = True

    def interrupt(self) -> bool:
        """Give the cells back; the next step goes on with what has not been measured. False when it held none."""
        if self._steps is None:
            return False
        held = self._context.kv_length(self._seq_id) > 0
        with suppress(ValueError):
            self._steps.close()  # type: ignore[attr-defined]
        self._steps = None
        self._context.clear(self._seq_id)
        return held

    def table(self) -> CostTable | None:
        """None when not even the first pass over the row counts is complete enough: one row and one other."""
        rows = sorted(row for row in self._rows if self._samples.get((SHORT, row)))
        if len(rows) < 2 or rows[0] != 1:
            return None
        # The fastest of each: what else runs on the machine can only add time, and often does.
        short = [min(self._samples[SHORT, row]) for row in rows]
        long = next((length for length in LONG if self._samples.get((length, 1))), None)
        rewind_s = min(self._rewinds) if self._rewinds else 0.0
        if long is None:
            return CostTable(tuple(rows), (SHORT,), (tuple(short),), rewind_s=rewind_s)
        # Attention adds time in proportion to rows: what it adds is smooth over rows where the rest has steps.
        known = sorted(row for row in LONG_ROWS if self._samples.get((long, row)))
        added = [min(self._samples[long, row]) - short[rows.index(row)] for row in known]
        slope = added[-1] / known[-1]
        more = [
            float(np.interp(row, known, added)) if row <= known[-1] else added[-1] + slope * (row - known[-1])
            for row in rows
        ]
        return CostTable(
            tuple(rows),
            (SHORT, long),
            (tuple(short), tuple(base + max(extra, 0.0) for base, extra in zip(short, more, strict=True))),
            rewind_s=rewind_s,
        )

    def _measure(self) -> Iterator[None]:
        try:
            yield from self._prefill(0, SHORT)
            if self._context.copies_state:
                yield from self._rewind()
            share = 1 - _LONG_SHARE
            yield from self._sample(SHORT, self._rows, share)
            long = self._affordable()
            if long is not None:
                yield from self._prefill(SHORT, long)
                yield from self._sample(long, tuple(row for row in LONG_ROWS if row in self._rows), 1.0)
        finally:
            self._context.clear(self._seq_id)

    def _sample(self, length: int, rows: Sequence[int], share: float) -> Iterator[None]:
        """Every row count once, then all of them again, the other way round each time, as long as the time lasts."""
        checkpoint = self._context.checkpoint(self._seq_id, length)
        for repeat in range(_REPEATS):
            for row in rows if repeat % 2 == 0 else reversed(rows):
                if len(self._samples[length, row]) > repeat:
                    continue
                if self._spent_s > share * self._budget_s and (repeat or row > rows[1]):
                    return
                # Decoding one row after another is what happens most: its second time counts, with the graph kept.
                for _ in range(2 if row == 1 else 1):
                    seconds = self._decode(length, row)
                    self._context.roll_back(self._seq_id, checkpoint)
                self._samples[length, row].append(seconds)
                yield

    def _rewind(self) -> Iterator[None]:
        """What a round does whose draft is refused: copy the state, put it back, decode once more what is kept."""
        start = self._context.checkpoint(self._seq_id, SHORT)
        for _ in range(_REPEATS - len(self._rewinds)):
            began = time.perf_counter()
            checkpoint = self._context.checkpoint(self._seq_id, SHORT, 2)
            pass_s = self._decode(SHORT, 2)
            self._context.roll_back(self._seq_id, checkpoint, self._token_ids[SHORT : SHORT + 1])
            rewind_s = time.perf_counter() - began - pass_s
            self._rewinds.append(rewind_s)
            self._spent_s += rewind_s
            self._context.roll_back(self._seq_id, start)
            yield

    def _affordable(self) -> int | None:
        """The longest context that can be decoded in half of the time that is left for it."""
        widest = max(row for row in self._rows if self._samples.get((SHORT, row)))
        token_s = min(self._samples[SHORT, widest]) / widest
        left_s = self._budget_s - self._spent_s
        room = self._context.n_ctx - max(self._rows)
        return next((length for length in LONG if length <= room and length * token_s <= left_s / 2), None)

    def _prefill(self, start: int, end: int) -> Iterator[None]:
        while start < end:
            count = min(_CHUNK, end - start)
            self._decode(start, count, num_outputs=0)
            start += count
            yield

    def _decode(self, position: int, count: int, num_outputs: int | None = None) -> float:
        """Seconds until the logits are there."""
        outputs = count if num_outputs is None else num_outputs
        self._batch.clear()
        self._batch.add(self._token_ids[position : position + count], position, self._seq_id, outputs)
        started = time.perf_counter()
        self._context.decode(self._batch)
        if outputs:
            self._context.logits()
        seconds = time.perf_counter() - started
        self._spent_s += seconds
        return seconds


def draft_seconds(propose: Callable[[DraftRequest], Draft], slot_id: int, n_vocab: int) -> Iterator[dict[int, float]]:
    """Seconds of a model drafter's draft by D, ever more complete; one short call to the library per step.

    A drafter that cannot draft for a text it has not followed gives nothing.
    """
    token_ids = [int(token) for token in np.random.default_rng(0).integers(0, n_vocab, SHORT)]
    sampler = CoupledSampler(Sampling(temperature=0.0))
    samples: defaultdict[int, list[float]] = defaultdict(list)
    propose(DraftRequest(slot_id, list(token_ids), 1, sampler.propose))
    yield {}
    for _ in range(3):
        for num_tokens in _DRAFTS:
            started = time.perf_counter()
            draft = propose(DraftRequest(slot_id, list(token_ids), num_tokens, sampler.propose))
            if len(draft.proposals) == num_tokens:
                samples[num_tokens].append(time.perf_counter() - started)
            yield {count: min(seconds) for count, seconds in samples.items()}
