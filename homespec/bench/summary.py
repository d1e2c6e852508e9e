"""From trials to the groups of a report. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from homespec.bench.interval import mean_interval, spread
from homespec.bench.report import OVERALL, Comparison, Group, SideResult
from homespec.bench.sides import AUTO, OTHER, PLAIN, Side
from homespec.bench.trial import Trial
from homespec.bench.verdict import CONFIDENCE, category_level, judge
from homespec.stats import DraftStats

T = TypeVar("T")
PREFILL_SHARE, PREFILL_SLACK = 0.1, 8
"""Prompts differ in what is computed of them when more than this share of their tokens does, and so many tokens."""
Pair = tuple[Trial, Trial]
"""The side's trial and the baseline's, of the same prompt."""


def summarise(trials: Sequence[Trial], sides: Sequence[Side]) -> tuple[Group, tuple[Group, ...]]:
    """All trials together, and each category, in the order in which the categories first come by name."""
    by_category: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        by_category[trial.category].append(trial)
    level = category_level(len(by_category))
    categories = tuple(_group(name, by_category[name], sides, level) for name in sorted(by_category))
    return _group(OVERALL, trials, sides, CONFIDENCE), categories


def _group(name: str, trials: Sequence[Trial], sides: Sequence[Side], level: float) -> Group:
    by_side = {side.name: [trial for trial in trials if trial.side == side.name] for side in sides}
    results = _side_results({name: own for name, own in by_side.items() if own})
    pairs_of = {(side, base): _pairs(by_side[side], by_side[base]) for side, base in _compared(sides)}
    comparisons = [_compare(side, base, pairs, level) for (side, base), pairs in pairs_of.items() if pairs]
    best = _fastest_fixed(sides, comparisons)
    hindsight = _compare(AUTO, best, _pairs(by_side[AUTO], by_side[best]), level) if best else None
    return Group(name, results, tuple(comparisons), hindsight)


def _fastest_fixed(sides: Sequence[Side], comparisons: Sequence[Comparison]) -> str | None:
    """The side of a sweep that was fastest, or plain where none was faster; None without a sweep."""
    swept = {side.name for side in sides if side.swept}
    ratios = {each.side: each.ratio for each in comparisons if each.side in swept and each.ratio is not None}
    if not ratios:
        return None
    best = max(ratios, key=lambda name: ratios[name])
    return best if ratios[best] > 1 else PLAIN


def _compared(sides: Sequence[Side]) -> list[tuple[str, str]]:
    """Every drafting side with plain, and every side of ours but those of a sweep with the other server."""
    ours = [side for side in sides if side.is_ours]
    with_plain = [(side.name, PLAIN) for side in ours if side.name != PLAIN]
    others = [side.name for side in sides if side.name == OTHER]
    return with_plain + [(side.name, other) for other in others for side in ours if not side.swept]


def _pairs(trials: Iterable[Trial], baseline: Iterable[Trial]) -> list[Pair]:
    of_baseline = {trial.question_id: trial for trial in baseline}
    return [(trial, of_baseline[trial.question_id]) for trial in trials if trial.question_id in of_baseline]


def _compare(side: str, baseline: str, pairs: Sequence[Pair], level: float) -> Comparison:
    logs = _log_ratios(pairs, lambda trial: trial.tokens_per_second)
    first_logs = _log_ratios([pair for pair in pairs if same_prefill(*pair)], lambda trial: trial.time_to_first_token_s)
    all_logs = [log for values in logs.values() for log in values]
    all_first = [-log for values in first_logs.values() for log in values]
    interval = mean_interval(list(logs.values()), level)
    return Comparison(
        side=side,
        baseline=baseline,
        num_pairs=len(pairs),
        num_untimed=len(pairs) - len(all_logs),
        num_first_tokens=len(all_first),
        num_identical=sum(left.texts == right.texts for left, right in pairs),
        length_ratio=_length_ratio(pairs),
        ratio=_exp(interval.mean) if interval else None,
        ratio_spread=spread([math.exp(log) for log in all_logs]),
        low=_exp(interval.low) if interval else None,
        high=_exp(interval.high) if interval else None,
        level=level,
        worst=_exp(min(all_logs, default=None)),
        first_token_ratio=_exp(sum(all_first) / len(all_first)) if all_first else None,
        verdict=judge(interval),
    )


def same_prefill(trial: Trial, baseline: Trial) -> bool:
    """Whether both had about as much of the prompt to compute; yes where a server does not say."""
    ours, theirs = trial.num_computed_prompt, baseline.num_computed_prompt
    if ours is None or theirs is None:
        return True
    return abs(ours - theirs) <= max(PREFILL_SLACK, PREFILL_SHARE * max(ours, theirs))


def _length_ratio(pairs: Sequence[Pair]) -> float | None:
    """Of all tokens of the answers."""
    baseline = sum(right.num_tokens for _, right in pairs)
    return sum(left.num_tokens for left, _ in pairs) / baseline if baseline else None


def _log_ratios(pairs: Sequence[Pair], value: Callable[[Trial], float | None]) -> Mapping[str, list[float]]:
    """Per category, over the pairs where both values are known."""
    logs: dict[str, list[float]] = defaultdict(list)
    for trial, baseline in pairs:
        ours, theirs = value(trial), value(baseline)
        if ours and theirs:
            logs[trial.category].append(math.log(ours / theirs))
    return logs


def _side_results(by_side: Mapping[str, Sequence[Trial]]) -> dict[str, SideResult]:
    """Over the prompts that all of them answered: what one refuses is often the long ones, which are slow for all."""
    answered = [{trial.question_id for trial in trials} for trials in by_side.values()]
    common = set.intersection(*answered) if answered else set()
    results = {}
    for name, trials in by_side.items():
        peak = max(_known(trial.engine_rss_bytes for trial in trials), default=None)
        shared = [trial for trial in trials if trial.question_id in common]
        if shared:
            results[name] = _side_result(shared, peak)
    return results


def _side_result(trials: Sequence[Trial], peak_rss_bytes: int | None) -> SideResult:
    stats = DraftStats()
    drafters: Counter[str] = Counter()
    for trial in trials:
        stats.add(trial.stats)
        drafters += trial.drafters
    telling = [trial for trial in trials if trial.rounds is not None]
    rounds = sum(trial.rounds or 0 for trial in telling) if telling else None
    return SideResult(
        num_answers=len(trials),
        num_tokens=sum(trial.num_tokens for trial in trials),
        time_to_first_token_s=spread(_known(trial.time_to_first_token_s for trial in trials)),
        tokens_per_second=spread(_known(trial.tokens_per_second for trial in trials)),
        rounds=rounds,
        drafted=stats.num_draft_tokens,
        accepted=stats.num_accepted_tokens,
        acceptance_rate=stats.acceptance_rate,
        acceptance_length=1 + stats.num_accepted_tokens / rounds if rounds else None,
        acceptance_per_position=stats.acceptance_per_position,
        rows_per_token=_rows_per_token(telling, stats),
        draft_ms_per_round=_per_round(telling, lambda trial: trial.draft_ms),
        verify_ms_per_round=_per_round(telling, lambda trial: trial.verify_ms),
        drafters=dict(drafters),
        peak_rss_bytes=peak_rss_bytes,
    )


def _rows_per_token(trials: Sequence[Trial], stats: DraftStats) -> float | None:
    """Each answer takes a row of its prompt's pass, a row per round, and one per drafted token."""
    num_tokens = sum(turn.num_generated or 0 for trial in trials for turn in trial.turns)
    rows = sum(len(trial.turns) + (trial.rounds or 0) for trial in trials) + stats.num_draft_tokens
    return rows / num_tokens if num_tokens else None


def _per_round(trials: Sequence[Trial], value: Callable[[Trial], float | None]) -> float | None:
    telling = [trial for trial in trials if value(trial) is not None and trial.rounds]
    rounds = sum(trial.rounds or 0 for trial in telling)
    return sum(value(trial) or 0 for trial in telling) / rounds if rounds else None


def _known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def _exp(value: float | None) -> float | None:
    return None if value is None else math.exp(value)
