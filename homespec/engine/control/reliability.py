"""How often tokens of each confidence were taken, beside how often they were expected to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from homespec.status import ReliabilityBin


@dataclass(slots=True)
class Count:
    """Draft tokens that the target has judged."""

    judged: int = 0
    taken: int = 0
    expected: float = 0.0
    """Sum of their chances, as forecast: what `taken` should come to."""


def reliability(counts: Sequence[Count], edges: Sequence[float] | None) -> tuple[ReliabilityBin, ...]:
    """The bins that have seen a token. edges: inner ones, ascending, each the highest confidence of the bin below it;
    None: there is one bin, of tokens without a confidence."""
    limits: Sequence[tuple[float | None, float | None]] = (
        [(None, None)] if edges is None else [*zip((0.0, *edges), (*edges, 1.0), strict=True)]
    )
    return tuple(
        ReliabilityBin(*each, count.judged, count.taken / count.judged, count.expected / count.judged)
        for each, count in zip(limits, counts, strict=True)
        if count.judged
    )
