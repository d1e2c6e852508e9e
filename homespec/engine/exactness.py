"""Whether verification gives the same logits as one-token decoding, measured on the loaded model, bit for bit.

The kernels that llama.cpp picks depend on how many rows a call has, and other kernels sum in another order. Where
every width agrees, an answer cannot depend on what was drafted; the engine is *strict*. Elsewhere each token is still
an exact sample from the target under the batch shape that was used: *distribution*.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Checkpoint, Context

STRICT, DISTRIBUTION = "strict", "distribution"

SHORT_PREFIX, LONG_PREFIX = 24, 640
"""Attention over f16 keys changes its path for one row from 512 cells on: a short prefix alone would not show it."""
ROWS = 9
"""Rows decoded one by one as the reference."""
WIDTHS = (2, 3, 4, 5, 8, 9, 16, 33)
NUM_TOKENS = 768
"""Room in the context that the probe needs at most."""
_CHUNK = 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a probe, or of not making one."""

    strict: bool
    reason: str
    """Which widths were compared after which prefixes, and by how much they differ."""
    only_single_rows_differ: bool = False
    """All batches agree with one another: padding single rows to two makes the engine strict."""

    @property
    def label(self) -> str:
        return STRICT if self.strict else DISTRIBUTION


Measurement = Generator[None, None, Verdict]


@dataclass(slots=True)
class Exactness:
    """What the engine knows of its own exactness, and what it does for it."""

    verdict: Verdict
    pad_single: bool = False
    """Single rows are decoded with a second one beside."""
    required: bool = False
    """`strict` was asked for: what could spoil it is not done, even where it costs time."""
    begin: Callable[[], Measurement] | None = None
    """Starts a measurement."""
    measure: Measurement | None = None
    """A measurement that is not over: steps to take while there is nothing else to do."""


def unchecked(why: str) -> Verdict:
    return Verdict(strict=False, reason=f"not checked: {why}")


def measure(context: Context, seq_id: int, *, max_rows: int, pad_single: bool = False) -> Measurement:
    """Compare one-row decoding with batches of up to `max_rows` rows; yields between short calls to the library.

    Uses the KV cache of `seq_id` and leaves it empty, also when closed early; other sequences are not touched. Raises
    KvCacheFull when there is no room for it. pad_single: one row is decoded as Round then does it, with another beside.
    """
    prefixes = [prefix for prefix in (SHORT_PREFIX, LONG_PREFIX) if prefix + max(max_rows, ROWS) <= context.n_ctx]
    if not prefixes:
        return unchecked(f"a context of {context.n_ctx} tokens is too small for it")
    run = _Runner(context, seq_id, pad_single=pad_single)
    widths = [width for width in WIDTHS if width < max_rows] + [max_rows]
    try:
        for prefix in prefixes:
            yield from run.prefill(prefix)
            if (verdict := (yield from _compare(run, prefix, widths))) is not None:
                return verdict
    finally:
        context.clear(seq_id)
    lengths = " and ".join(str(prefix) for prefix in prefixes)
    padded = "padded single rows" if pad_single else "single rows"
    return Verdict(True, f"{padded} and batches of 2 to {max_rows} rows agree bit for bit after {lengths} tokens")


class _Runner:
    """Decodes a fixed pseudo-random text."""

    def __init__(self, context: Context, seq_id: int, *, pad_single: bool) -> None:
        self._context = context
        self._seq_id = seq_id
        self._pad_single = pad_single
        self._batch = Batch(context.params.n_batch)
        generator = np.random.default_rng(0)
        high = context.model.vocab.n_vocab
        self._token_ids = [int(token) for token in generator.integers(0, high, NUM_TOKENS)]
        self._num_decoded = 0

    def prefill(self, prefix: int) -> Iterator[None]:
        """Decode from the last prefix to this one."""
        while self._num_decoded < prefix:
            end = min(self._num_decoded + _CHUNK, prefix)
            self._decode(self._num_decoded, end - self._num_decoded, num_outputs=0)
            self._num_decoded = end
            yield

    def single(self, position: int) -> NDArray[np.float32]:
        """Logits of the row at `position`, decoded as the engine decodes a single row; a copy."""
        if not self._pad_single:
            return np.copy(self._decode(position, 1, num_outputs=1)[0])
        # The second row is thrown away again, as in Round.
        checkpoint = self._context.checkpoint(self._seq_id, position, 2)
        logits = np.copy(self._decode(position, 2, num_outputs=2)[0])
        self._context.roll_back(self._seq_id, checkpoint, self._token_ids[position : position + 1])
        return logits

    def rows(self, position: int, width: int) -> NDArray[np.float32]:
        """Logits of `width` rows from `position` on, in one call; a view. Leaves the prefix alone in the cache."""
        checkpoint = self.checkpoint(position)
        logits = self._decode(position, width, num_outputs=width)
        self.roll_back(checkpoint)
        return logits

    def checkpoint(self, position: int) -> Checkpoint:
        return self._context.checkpoint(self._seq_id, position)

    def roll_back(self, checkpoint: Checkpoint) -> None:
        self._context.roll_back(self._seq_id, checkpoint)

    def _decode(self, position: int, count: int, *, num_outputs: int) -> NDArray[np.float32]:
        self._batch.clear()
        self._batch.add(self._token_ids[position : position + count], position, self._seq_id, num_outputs)
        self._context.decode(self._batch)
        return self._context.logits()


def _compare(run: _Runner, prefix: int, widths: list[int]) -> Generator[None, None, Verdict | None]:
    """None when everything agrees after this prefix."""
    checkpoint = run.checkpoint(prefix)
    singles = []
    for row in range(ROWS):
        singles.append(run.single(prefix + row))
        yield
    run.roll_back(checkpoint)
    differing: dict[int, float] = {}
    reference: NDArray[np.float32] | None = None
    batches_agree = True
    for width in widths:
        logits = run.rows(prefix, width)
        rows = range(min(width, ROWS))
        if not all(_same_bits(logits[row], singles[row]) for row in rows):
            differing[width] = max(float(np.abs(logits[row] - singles[row]).max()) for row in rows)
        reference = np.copy(logits[0]) if reference is None else reference
        batches_agree = batches_agree and _same_bits(logits[0], reference)
        yield
    if not differing:
        return None
    shown = ", ".join(str(width) for width in differing)
    return Verdict(
        False,
        f"batches of {shown} rows differ from single rows by up to {max(differing.values()):.2g} after {prefix} tokens",
        only_single_rows_differ=batches_agree and len(differing) == len(widths),
    )


def _same_bits(left: NDArray[np.float32], right: NDArray[np.float32]) -> bool:
    return bool(np.array_equal(left.view(np.uint32), right.view(np.uint32)))
