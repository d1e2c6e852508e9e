"""What a target pass and a draft cost, in seconds: measured tables, corrected by what the clock goes on to show.

A table has knots over rows (or D) and context. Between knots it is linear; over context it never falls; over rows it is
whatever was measured, because three rows may cost more than four.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from homespec.engine.control.correction import Corrections, Drift
from homespec.engine.control.guidelines import prior_verify_cost
from homespec.stats import MAX_DRAFT_TOKENS

Seconds = NDArray[np.float64]

MEASURED, ASSUMED = 0.05, 0.5
"""Standard deviation of a factor on a table that was measured here, and on one that was not."""
_FIRST_PASSES = 3
_ASSUMED_DRAFT = 1 / 3
_REWIND_STEP, _REWIND_CLIP = 0.1, 4.0
_EXTRA_ROWS = np.arange(4)
"""Rows that a round may be filled up with."""


@dataclass(frozen=True, slots=True)
class CostTable:
    """Seconds of a target pass over rows × context."""

    rows: tuple[int, ...]
    """Ascending; the first is 1."""
    contexts: tuple[int, ...]
    """Ascending: tokens in the KV cache before the pass."""
    seconds: tuple[tuple[float, ...], ...]
    """One line per context, one entry per row count."""
    measured: bool = True
    rewind_s: float = 0.0
    """Beside the pass, for each sequence that drafts: keeping a recurrent state, and putting it back."""
    num_runs: int = 1
    """Measurements that these are the fastest times of."""

    @property
    def is_sound(self) -> bool:
        """Whether choices can be made from it: a table out of a file may say anything."""
        times = [seconds for line in self.seconds for seconds in line]
        return (
            self.rows[:1] == (1,)
            and _is_rising(self.rows)
            and _is_rising(self.contexts)
            and len(self.seconds) == len(self.contexts) > 0
            and all(len(line) == len(self.rows) for line in self.seconds)
            and all(0 < seconds < math.inf for seconds in times)
            and 0 <= self.rewind_s < math.inf
        )

    def dense(self, max_rows: int) -> Seconds:
        """Seconds, shape (contexts, max_rows + 1): by row count, and 0 for none."""
        lines = [_over_rows(self.rows, line, max_rows) for line in self.seconds]
        return np.maximum.accumulate(np.stack(lines), axis=0)


def fastest(earlier: CostTable, later: CostTable) -> CostTable:
    """Two measurements of the same, made one: what else ran on the machine has added time to either.

    Where one knows more contexts or rows than the other, as when time ran out, it is taken alone.
    """
    num_runs = earlier.num_runs + later.num_runs
    if (earlier.rows, earlier.contexts) != (later.rows, later.contexts):
        fuller = max(later, earlier, key=lambda table: (len(table.contexts), len(table.rows)))
        return replace(fuller, num_runs=num_runs)
    seconds = tuple(tuple(map(min, *lines)) for lines in zip(earlier.seconds, later.seconds, strict=True))
    return replace(later, seconds=seconds, rewind_s=min(earlier.rewind_s, later.rewind_s), num_runs=num_runs)


class CostModel:
    """The costs that a choice is made from. Owned by the scheduler thread."""

    def __init__(self, table: CostTable | None, *, max_rows: int, on_cpu: bool = True) -> None:
        """Without a table the first passes give the scale of an assumed one."""
        self.max_rows = max_rows
        self._on_cpu = on_cpu
        self._first_s: list[float] = []
        """Seconds of one row, as the first passes let it appear."""
        self._drafts: dict[str, _DraftCost] = {}
        self._verify = None if table is None else _VerifyCost(table, max_rows)
        self._drift = Drift()
        self.rewind_s = 0.0 if table is None else table.rewind_s
        """What a sequence that drafts costs beside its rows; 0 where rows can simply be taken back."""

    def use(self, table: CostTable) -> None:
        """A new measurement of this machine; what was learned about drafts stays."""
        self._verify = _VerifyCost(table, self.max_rows)
        self._drift = Drift()
        self.rewind_s = table.rewind_s or self.rewind_s

    @property
    def is_known(self) -> bool:
        return self._verify is not None

    @property
    def table(self) -> CostTable | None:
        """What the costs started from; None while nothing is known."""
        return None if self._verify is None else self._verify.table

    @property
    def is_measured(self) -> bool:
        return self._verify is not None and self._verify.table.measured

    def verify_s(self, context: float) -> Seconds:
        """Seconds of a pass by its number of rows, from 0 to `max_rows`, after `context` tokens. Needs `is_known`."""
        assert self._verify is not None
        return self._verify.base(context) * self._verify.rows.factors(self.max_rows) * self._drift.factor

    def observe_verify(self, rows: int, context: float, seconds: float) -> None:
        if self._verify is not None:
            self._verify.rows.learn(rows, self._verify.base_of(rows, context), seconds, self._drift)
            return
        self._first_s.append(seconds / prior_verify_cost(rows, on_cpu=self._on_cpu))
        if len(self._first_s) == _FIRST_PASSES:
            self.use(assumed_table(float(np.median(self._first_s)), self.max_rows, on_cpu=self._on_cpu))

    def observe_rewind(self, num_sequences: int, seconds: float) -> None:
        """So many sequences have drafted. One timing counts for a few times what was thought at most."""
        share_s = seconds / num_sequences
        if self.rewind_s:
            share_s = self.rewind_s + _REWIND_STEP * (min(share_s, _REWIND_CLIP * self.rewind_s) - self.rewind_s)
        self.rewind_s = share_s

    def set_draft_s(self, name: str, seconds: Mapping[int, float]) -> None:
        """Seconds of a draft for one sequence by D, as measured; at least for one D."""
        self._drafts[name] = _DraftCost(seconds, MEASURED)

    def draft_s(self, name: str, num_sequences: int, context: float) -> Seconds:
        """Seconds of one call of a drafter by D, from 0 to its last knot, when so many sequences share it.

        A drafter that was never measured is taken to need a third of a target pass for each token.
        """
        return self._draft(name).seconds(num_sequences) * (self._shared(num_sequences, context) * self._drift.factor)

    def observe_draft(self, name: str, num_sequences: int, num_tokens: int, context: float, seconds: float) -> None:
        shared = self._shared(num_sequences, context)
        self._draft(name).observe(num_sequences, num_tokens, shared, seconds, self._drift)

    def _draft(self, name: str) -> _DraftCost:
        if name not in self._drafts:
            row_s = float(self.verify_s(0)[1]) / self._drift.factor
            assumed = {1: _ASSUMED_DRAFT * row_s, MAX_DRAFT_TOKENS: _ASSUMED_DRAFT * row_s * MAX_DRAFT_TOKENS}
            self._drafts[name] = _DraftCost(assumed, ASSUMED)
        return self._drafts[name]

    def _shared(self, num_sequences: int, context: float) -> float:
        """How much longer a drafter takes for several sequences, by the shape of the target's own cost."""
        if num_sequences == 1:
            return 1.0
        base = self.verify_s(context)
        return float(base[min(num_sequences, self.max_rows)] / base[1])


class _VerifyCost:
    """Seconds of a target pass: a table, and what was learned since."""

    def __init__(self, table: CostTable, max_rows: int) -> None:
        self.table = table
        self.rows = Corrections(table.rows, MEASURED if table.measured else ASSUMED)
        self._dense = table.dense(max_rows)
        self._lines: list[list[float]] = self._dense.tolist()
        self._contexts = table.contexts

    def base(self, context: float) -> Seconds:
        """The table at one context; beyond its ends the nearest slope goes on, never down."""
        contexts, dense = self._contexts, self._dense
        if len(contexts) == 1 or context <= contexts[0]:
            return dense[0]  # type: ignore[no-any-return]
        upper = min(bisect_left(contexts, context), len(contexts) - 1)
        share = (context - contexts[upper - 1]) / (contexts[upper] - contexts[upper - 1])
        base: Seconds = dense[upper - 1] + share * (dense[upper] - dense[upper - 1])
        return base

    def base_of(self, rows: int, context: float) -> float:
        """The same for one row count."""
        contexts, lines = self._contexts, self._lines
        if len(contexts) == 1 or context <= contexts[0]:
            return lines[0][rows]
        upper = min(bisect_left(contexts, context), len(contexts) - 1)
        share = (context - contexts[upper - 1]) / (contexts[upper] - contexts[upper - 1])
        return lines[upper - 1][rows] + share * (lines[upper][rows] - lines[upper - 1][rows])


class _DraftCost:
    """Seconds of a draft over D, and over the sequences that share it."""

    def __init__(self, seconds: Mapping[int, float], spread: float) -> None:
        knots = sorted(seconds)
        self._base = _over_rows(knots, [seconds[knot] for knot in knots], max(knots[-1], MAX_DRAFT_TOKENS))
        self._tokens = Corrections(knots, spread)
        self._sharing = Corrections((1, 2, 4, 8), ASSUMED, pinned=1)

    def seconds(self, num_sequences: int) -> Seconds:
        return self._base * self._tokens.factors(len(self._base) - 1) * self._sharing.at(num_sequences)

    def observe(self, num_sequences: int, num_tokens: int, shared: float, seconds: float, drift: Drift) -> None:
        num_tokens = min(num_tokens, len(self._base) - 1)
        if num_sequences == 1:
            self._tokens.learn(num_tokens, float(self._base[num_tokens]), seconds, drift)
        else:
            base = float(self._base[num_tokens]) * self._tokens.at(num_tokens) * shared
            self._sharing.learn(num_sequences, base, seconds, drift)


def assumed_table(row_s: float, max_rows: int, *, on_cpu: bool) -> CostTable:
    """What is used before anything has been measured, from the seconds of one row."""
    rows = tuple(row for row in (1, 2, 4, 8, 16) if row <= max(max_rows, 1))
    return CostTable(
        rows, (0,), (tuple(row_s * prior_verify_cost(row, on_cpu=on_cpu) for row in rows),), measured=False
    )


def filled(verify_s: Seconds, least_rows: int = 1) -> tuple[Seconds, NDArray[np.intp]]:
    """The cheapest way to get each row count when a few more rows may be decoded for nothing.

    Returns seconds and the rows to decode, both by row count: with weights repacked for four rows, three cost more than
    four. least_rows: a pass never has fewer.
    """
    last = len(verify_s) - 1
    needed = np.arange(last + 1)
    rows = needed + verify_s[np.minimum(needed[:, None] + _EXTRA_ROWS, last)].argmin(axis=1)
    rows[:2] = needed[:2]  # nothing costs nothing; and one row is what all is compared with, so it must be seen
    rows[1:least_rows] = least_rows
    return verify_s[np.minimum(rows, last)], rows


def _is_rising(values: Sequence[int]) -> bool:
    return all(left < right for left, right in pairwise(values))


def _over_rows(knots: Sequence[int], seconds: Sequence[float], last: int) -> Seconds:
    """Linear between knots and from 0 up to the first; beyond the last the mean slope of the second half goes on."""
    wanted = np.arange(last + 1, dtype=np.float64)
    dense = np.interp(wanted, [0, *knots], [0.0, *seconds])
    if last > knots[-1]:
        # A step between the last two knots alone would be continued for ever.
        earlier = next((i for i, knot in enumerate(knots) if knot >= knots[-1] / 2), 0)
        span = knots[-1] - knots[earlier]
        slope = (seconds[-1] - seconds[earlier]) / span if span else seconds[-1] / knots[-1]
        beyond = wanted > knots[-1]
        dense[beyond] = seconds[-1] + max(slope, 0.0) * (wanted[beyond] - knots[-1])
    assert _is_rising(knots)
    return dense
