"""The curves of a sweep over D, one per drafter; the plain side is D = 0. Pure."""

from __future__ import annotations

from typing import NamedTuple

from homespec.bench.report import Report
from homespec.bench.svg import Point

Curves = dict[str, list[Point]]
"""By drafter."""


class Sweep(NamedTuple):
    """Over all categories; empty without a sweep."""

    lengths: Curves
    """Acceptance length."""
    ratios: Curves
    """Speed ÷ plain, with its interval."""


def sweep_of(report: Report) -> Sweep:
    lengths: Curves = {}
    ratios: Curves = {}
    for side in report.sides:
        if not side.swept or side.name not in report.overall.sides:
            continue
        drafter, limit = str(side.drafter), float(side.max_draft_tokens or 0)
        if (length := report.overall.sides[side.name].acceptance_length) is not None:
            lengths.setdefault(drafter, [Point(0, 1)]).append(Point(limit, length))
        compared = report.overall.comparison(side.name)
        if compared is not None and compared.ratio is not None:
            point = Point(limit, compared.ratio, compared.low, compared.high)
            ratios.setdefault(drafter, [Point(0, 1)]).append(point)
    return Sweep(lengths, ratios)
