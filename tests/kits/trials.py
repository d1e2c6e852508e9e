"""Trials as a bench would measure them, out of plain numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from homespec.bench.options import Options
from homespec.bench.prompts import Prompt
from homespec.bench.report import Report
from homespec.bench.reporter import make_report
from homespec.bench.runner import Run
from homespec.bench.sides import Side, sides_of
from homespec.bench.trial import Failure, Trial, Turn
from homespec.stats import DraftStats


def turn(tokens_per_second: float = 50.0, **fields: object) -> Turn:
    """101 tokens at a rate, in plain rounds unless told otherwise."""
    known = {
        "text": "words",
        "num_tokens": 101,
        "num_generated": 101,
        "time_to_first_token_s": 0.1,
        "decode_s": 100 / tokens_per_second,
        "finish_reason": "length",
        "rounds": 100,
    }
    return Turn(**(known | fields))  # type: ignore[arg-type]


def trial(side: str, question_id: str, tokens_per_second: float = 50.0, category: str = "prose") -> Trial:
    return Trial(question_id, category, side, (turn(tokens_per_second),), engine_rss_bytes=1000)


def drafted(side: str, question_id: str, tokens_per_second: float, category: str = "prose") -> Trial:
    """100 tokens after the first out of 40 rounds, each with two tokens drafted: 40 first and 20 second ones kept."""
    stats = DraftStats(40, 80, 60, [40, 20])
    one = turn(tokens_per_second, rounds=40, stats=stats, drafters={"ngram": 40}, draft_ms=8.0, verify_ms=400.0)
    return Trial(question_id, category, side, (one,), engine_rss_bytes=2000)


def report_of(
    trials: list[Trial],
    sides: tuple[Side, ...] | None = None,
    *,
    failures: Sequence[Failure] = (),
    ended_early: str | None = None,
) -> Report:
    """As `homespec bench` would make it of these trials, without a daemon's word."""
    sides = sides or sides_of(["auto"], None, (), against=False)
    prompts = [Prompt(each.question_id, each.category, ("?",)) for each in trials]
    run = Run(trials=trials, failures=list(failures), ended_early=ended_early)
    return make_report(Options(url="http://box"), "http://box", prompts, sides, run, time.time())


def two_sided(ratios: dict[str, list[float]], speed: float = 50.0) -> list[Trial]:
    """Per category, one prompt for each ratio of the drafting side to the plain one."""
    trials = []
    for category, values in ratios.items():
        for index, ratio in enumerate(values):
            name = f"{category}-{index}"
            trials.append(trial("plain", name, speed, category))
            trials.append(drafted("auto", name, speed * ratio, category))
    return trials
