"""The report: frozen records, from which the terminal, the page and the JSON are written. Ratios are speed ÷ speed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from homespec.bench.costs import VerifyCost
from homespec.bench.interval import Spread
from homespec.bench.sides import PLAIN, Side
from homespec.bench.trial import Failure, Trial
from homespec.bench.verdict import Verdict
from homespec.errors import ExitCode

OVERALL = "overall"


@dataclass(frozen=True, slots=True)
class SideResult:
    """One side in one category, over the prompts that every side answered. What its server does not say is None."""

    num_answers: int
    num_tokens: int
    time_to_first_token_s: Spread | None
    tokens_per_second: Spread | None
    rounds: int | None
    drafted: int
    accepted: int
    acceptance_rate: float | None
    acceptance_length: float | None
    """Tokens per target pass, passes without a draft included."""
    acceptance_per_position: list[float]
    """Share of the drafting rounds that accepted position i."""
    rows_per_token: float | None
    """Rows that the target computed for each token that came out; 1 when nothing is drafted."""
    draft_ms_per_round: float | None
    verify_ms_per_round: float | None
    drafters: dict[str, int]
    """Rounds drafted, per drafter."""
    peak_rss_bytes: int | None
    """Over all of its answers."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One side against another, over the prompts that both answered."""

    side: str
    baseline: str
    num_pairs: int
    num_untimed: int
    """Pairs with an answer too short for a speed; they count for no ratio of speeds."""
    num_first_tokens: int
    """Pairs whose times to first token are compared: at the first try, with as much of the prompt to compute."""
    num_identical: int
    """Pairs with the same text."""
    length_ratio: float | None
    """Tokens of the side's answers ÷ tokens of the baseline's."""
    ratio: float | None
    """Geometric mean of the side's tokens/s ÷ the baseline's."""
    ratio_spread: Spread | None
    low: float | None
    high: float | None
    level: float
    """Of the interval from low to high."""
    worst: float | None
    """The prompt that fared worst."""
    first_token_ratio: float | None
    """Geometric mean of the baseline's time to first token ÷ the side's: above 1 is sooner."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Group:
    """A category, or all of them."""

    name: str
    sides: dict[str, SideResult]
    comparisons: tuple[Comparison, ...]
    hindsight: Comparison | None = None
    """Of a sweep: `auto` against the fixed setting that was fastest here, plain included."""

    @property
    def told(self) -> tuple[Comparison, ...]:
        return self.comparisons if self.hindsight is None else (*self.comparisons, self.hindsight)

    def comparison(self, side: str, baseline: str = PLAIN) -> Comparison | None:
        return next((each for each in self.comparisons if (each.side, each.baseline) == (side, baseline)), None)


@dataclass(frozen=True, slots=True)
class Machine:
    """What was measured on, as the daemon says."""

    homespec: str
    url: str
    against: str | None
    against_model: str | None
    """What the other server was asked for; None: it lists no names."""
    model: str | None
    description: str | None
    devices: tuple[str, ...]
    threads: int | None
    n_ctx: int | None
    kv_type: str | None
    exactness: str
    exactness_reason: str
    target_bytes: int | None
    drafter_bytes: int | None


@dataclass(frozen=True, slots=True)
class Report:
    machine: Machine
    time_unix: float
    settings: dict[str, Any]
    """Sampler, seed and which prompts."""
    sides: tuple[Side, ...]
    overall: Group
    categories: tuple[Group, ...]
    failures: tuple[Failure, ...]
    notes: tuple[str, ...]
    """What a reader must know before believing the numbers."""
    verify_cost: tuple[VerifyCost, ...]
    """What a target pass takes over rows, by context, as the daemon measured it; empty when it does not say."""
    trials: tuple[Trial, ...]
    ended_early: str | None
    """Why some trials are missing; None for a whole run."""
    ended_code: int | None
    """The exit code of that."""

    @property
    def groups(self) -> tuple[Group, ...]:
        return (*self.categories, self.overall)

    @property
    def judged(self) -> tuple[Side, ...]:
        """The sides that the exit code answers for."""
        return tuple(side for side in self.sides if side.is_ours and not side.swept and side.name != PLAIN)

    @property
    def exit_code(self) -> int:
        """Of the bench: of what ended it early, else of the verdicts."""
        return int(self.judgement) if self.ended_code is None else self.ended_code

    @property
    def judgement(self) -> ExitCode:
        """SLOWER when drafting lost overall or in a category."""
        verdicts = {
            comparison.verdict
            for group in self.groups
            for side in self.judged
            if (comparison := group.comparison(side.name)) is not None
        }
        return ExitCode.SLOWER if Verdict.SLOWER in verdicts else ExitCode.OK
