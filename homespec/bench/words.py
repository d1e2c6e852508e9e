"""Numbers of a report as people read them; an unknown is a dash."""

from __future__ import annotations

from homespec.bench.interval import Spread
from homespec.bench.report import Comparison, Report
from homespec.bench.verdict import Verdict
from homespec.units import format_bytes

UNKNOWN = "–"


def number(value: float | None, digits: int = 2) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


def times(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}×"


def span(low: float | None, high: float | None) -> str:
    """`0.98–1.04`"""
    return UNKNOWN if low is None or high is None else f"{low:.2f}–{high:.2f}"


def spread_text(value: Spread | None, digits: int = 1, factor: float = 1.0) -> str:
    """`61.2 (58.0–66.1)`: median and quartiles."""
    if value is None:
        return UNKNOWN
    median, q1, q3 = (f"{each * factor:.{digits}f}" for each in (value.median, value.q1, value.q3))
    return f"{median} ({q1}–{q3})"


def what_was_measured(report: Report) -> str:
    """The model, where it runs, and on what."""
    machine, settings = report.machine, report.settings
    where = f" on {', '.join(machine.devices)}" if machine.devices else ""
    num_prompts = settings["num_prompts"]
    what = f"{num_prompts} prompt{'' if num_prompts == 1 else 's'}, answers of at most {settings['max_tokens']} tokens"
    return (
        f"{machine.description or machine.model or machine.url}{where}: {what}, temperature {settings['temperature']:g}"
    )


def memory_text(report: Report) -> str:
    """The most that the engine held, and how much of it is the drafter's."""
    peaks = [each.peak_rss_bytes for each in report.overall.sides.values() if each.peak_rss_bytes is not None]
    peak = format_bytes(max(peaks, default=None))
    return (
        f"memory of the engine: {peak} at most; of it for a draft model: {format_bytes(report.machine.drafter_bytes)}"
    )


def headline(report: Report) -> list[str]:
    """One sentence for each pair of sides; of a sweep, for the fastest D of each drafter."""
    swept = {side.name: str(side.drafter) for side in report.sides if side.swept}
    compared = report.overall.comparisons
    sentences = [_sentence(each) for each in compared if each.side not in swept]
    for drafter in dict.fromkeys(swept.values()):
        known = [each for each in compared if swept.get(each.side) == drafter and each.ratio is not None]
        if known:
            best = max(known, key=lambda each: each.ratio or 0)
            sentences.append(f"the fastest D of {drafter}: {_sentence(best)}")
    if (hindsight := report.overall.hindsight) is not None:
        sentences.append(f"chosen afterwards: {_sentence(hindsight)}")
    return sentences or ["nothing was compared"]


def _sentence(each: Comparison) -> str:
    if each.verdict is Verdict.TOO_FEW:
        return f"{each.side} against {each.baseline}: too few prompts to judge ({each.num_pairs})"
    return (
        f"{each.side} against {each.baseline}: {each.verdict}, {times(each.ratio)} "
        f"({each.level:.0%} interval {span(each.low, each.high)}), {each.num_pairs} prompts"
    )
