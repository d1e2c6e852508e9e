"""The prices of rounds, kept for as long as they are good for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from homespec.engine.control.cost import CostModel, filled
from homespec.engine.control.decision import Candidate
from homespec.engine.control.prices import Prices

_PRICED_FOR = 16
"""Rounds that measured prices are good for: they move slowly, and take time to compute."""
_CONTEXT_STEP = 64
"""Tokens of context that share their prices."""


class PriceList:
    """Of one cost model."""

    def __init__(self, cost: CostModel, *, least_rows: int) -> None:
        """least_rows: the engine never decodes fewer rows at once."""
        self._cost = cost
        self._least_rows = least_rows
        self._prices: dict[tuple[object, ...], Prices] = {}
        self._window = -1

    def of(self, candidates: Sequence[Candidate], context: float, now: int) -> Prices:
        """For a round of these sequences, which have `context` tokens on average. Needs costs that are known."""
        window = now // (_PRICED_FOR if self._cost.is_measured else 1)
        if window != self._window:
            self._window = window
            self._prices.clear()
        num_rows, costly = len(candidates), []
        for candidate in candidates:
            num_rows += candidate.num_fixed
            for offer in candidate.offers:
                if not offer.is_free:
                    costly.append(offer.drafter)
        key = (len(candidates), num_rows, context // _CONTEXT_STEP, *costly)
        if key not in self._prices:
            self._prices[key] = self._compute(len(candidates), num_rows, context, Counter(costly))
        return self._prices[key]

    def _compute(self, num_sequences: int, num_rows: int, context: float, asked: Counter[str]) -> Prices:
        cost = self._cost
        seconds, rows = filled(cost.verify_s(context), self._least_rows)
        return Prices(
            num_sequences=num_sequences,
            num_rows=min(num_rows, len(seconds) - 1),
            verify_s=seconds,
            rows=rows,
            draft_s={name: cost.draft_s(name, count, context) for name, count in asked.items()},
            rewind_s=cost.rewind_s,
        )
