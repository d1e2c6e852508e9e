"""What a reader of a report must know before believing its numbers. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from homespec.bench.meanwhile import of_daemon
from homespec.bench.report import Comparison, Group
from homespec.bench.runner import Run
from homespec.bench.sides import AUTO, OTHER, PLAIN, Side
from homespec.bench.summary import PREFILL_SLACK, same_prefill
from homespec.bench.trial import Failure, FailureKind, Trial

MAX_NAMES = 10
"""Of prompts in a note; the page and the JSON have all."""
LENGTH_TOLERANCE = 0.1
"""Answers whose lengths differ by less are about as long."""


def make_notes(overall: Group, sides: Sequence[Side], run: Run) -> list[str]:
    return [*_of_drafting(overall, sides, run), *_of_failures(run), *_of_other(overall, run), *of_daemon(sides, run)]


def _of_drafting(overall: Group, sides: Sequence[Side], run: Run) -> Iterator[str]:
    if any(side.swept and side.drafter == AUTO for side in sides):
        yield (
            f"with {AUTO} the D of a sweep is a ceiling, below which the controller goes on to decide: "
            f"for fixed D name drafters, as in --drafter ngram,draft"
        )
    for side in sides:
        result, compared = overall.sides.get(side.name), overall.comparison(side.name)
        if result and not result.drafted and side.drafter not in (None, "off") and side.max_draft_tokens != 0:
            reasons = [trial.turns[-1].reason for trial in run.trials if trial.side == side.name]
            yield f"{side.name} drafted nothing: {reasons[-1]}"
        if result and result.drafted and side.drafter == "off":
            yield f"{side.name} was to draft nothing and drafted {result.drafted} tokens: it is no plain side"
        if compared and compared.num_identical < compared.num_pairs:
            differing = compared.num_pairs - compared.num_identical
            yield (
                f"{differing} of {compared.num_pairs} answers of {side.name} are not the text of {PLAIN}; "
                f"'homespec doctor --divergence' tells rounding from a fault"
            )


def _of_failures(run: Run) -> Iterator[str]:
    """Which prompts, by side and by what became of them."""
    groups: dict[tuple[str, FailureKind], list[Failure]] = defaultdict(list)
    for failure in run.failures:
        groups[failure.side, failure.kind].append(failure)
    for (side, kind), failures in groups.items():
        names = ", ".join(failure.question_id for failure in failures[:MAX_NAMES])
        more = f" and {len(failures) - MAX_NAMES} more" if len(failures) > MAX_NAMES else ""
        were = "was" if len(failures) == 1 else "were"
        what = f"{were} refused by" if kind is FailureKind.REFUSED else "failed on"
        are, first = ("is", "") if len(failures) == 1 else ("are", "the first: ")
        yield (
            f"{_counted(len(failures), 'prompt')} {what} {side} and {are} in none of its comparisons: {names}{more}; "
            f"{first}{failures[0].message}"
        )


def _of_other(overall: Group, run: Run) -> Iterator[str]:
    """How comparable another server's answers are."""
    compared = overall.comparison(PLAIN, OTHER)
    if compared is None:
        return
    theirs = [trial for trial in run.trials if trial.side == OTHER]
    if compared.num_identical < compared.num_pairs:
        yield _of_other_texts(compared)
    generated = sum(turn.num_generated or 0 for trial in theirs for turn in trial.turns)
    counted = sum(trial.num_tokens for trial in theirs)
    if generated > (1 + LENGTH_TOLERANCE) * counted:
        yield (
            f"{OTHER} says that it generated {generated} tokens, and its answers have {counted}: what it does not "
            f"send, such as thoughts, is in its time to first token and not in its speed"
        )
    yield from _of_other_cache(theirs, [trial for trial in run.trials if trial.side == PLAIN])


def _of_other_texts(compared: Comparison) -> str:
    """compared: plain with the other server."""
    differing = compared.num_pairs - compared.num_identical
    note = f"{differing} of {compared.num_pairs} answers of {OTHER} are not the text of {PLAIN}"
    ratio = compared.length_ratio
    if ratio and abs(1 - 1 / ratio) > LENGTH_TOLERANCE:
        change = f"{abs(1 - 1 / ratio):.0%} {'shorter' if ratio > 1 else 'longer'}"
        note += f", and all together they are {change}"
    return f"{note}: another file, template or sampler, or rounding"


def _of_other_cache(theirs: Sequence[Trial], plain: Sequence[Trial]) -> Iterator[str]:
    if all(trial.num_computed_prompt is None for trial in theirs):
        yield (
            f"{OTHER} does not say what it finds in its cache; if it was asked these prompts before, "
            f"its time to first token is too good"
        )
        return
    ours = {trial.question_id: trial for trial in plain}
    pairs = [(trial, ours[trial.question_id]) for trial in theirs if trial.question_id in ours]
    # A template that one side finds there and the other does not is everyday; a whole prompt was asked before.
    num_known = sum(not same_prefill(*pair) and (pair[0].num_computed_prompt or 0) <= PREFILL_SLACK for pair in pairs)
    if num_known:
        yield (
            f"{OTHER} had {num_known} of {len(pairs)} prompts in its cache already: their times to first token are not "
            f"compared; start {OTHER} anew before a bench"
        )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
