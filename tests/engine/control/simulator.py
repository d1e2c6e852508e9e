"""Replays the controller on made-up machines and texts, and compares it with what would have been best.

Nothing here takes time: a machine says how long a pass would have taken, a text how much of a draft would have been
right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from homespec.engine.control.controller import Controller
from homespec.engine.control.cost import CostModel, CostTable
from homespec.engine.control.decision import Candidate, Decision, Offer, Outcome, RoundTimes

CEILING = 16
_TRUE, _WRONG, _OTHER = 1, 2, 3

Q4_1 = {1: 1.0, 2: 1.68, 4: 2.45, 8: 4.26, 16: 8.1}
Q4_0 = {1: 1.0, 2: 1.32, 3: 2.3, 4: 1.57, 5: 2.1, 6: 2.5, 7: 3.3, 8: 2.63, 9: 3.2, 12: 3.6, 16: 4.63}
"""Weights repacked for four rows: three rows cost more than four."""
F16 = {1: 1.0, 2: 1.66, 4: 1.76, 8: 2.40, 16: 3.77}
MACHINES = {"q4_1": Q4_1, "q4_0": Q4_0, "f16": F16}
"""T(n)/T(1), as measured on two cores."""

Rate = Callable[[int], float]
"""Chance that a draft token is right, given that those before it are, by round."""


@dataclass
class Machine:
    """How long things really take, in units of T(1)."""

    table: Mapping[int, float]
    draft_token: Mapping[str, float] = field(default_factory=dict)
    """Of the drafters that take time, per token."""
    rewind: float = 0.0
    """Of each sequence that drafts, for its recurrent state."""
    noise: float = 0.05
    max_rows: int = 68

    def verify(self, rows: int) -> float:
        knots = sorted(self.table)
        if rows <= knots[-1]:
            return float(np.interp(rows, knots, [self.table[knot] for knot in knots]))
        slope = (self.table[knots[-1]] - self.table[8]) / (knots[-1] - 8)
        return self.table[knots[-1]] + slope * (rows - knots[-1])

    def cost_model(self, error: Mapping[int, float] | None = None) -> CostModel:
        """What a calibration would have found; `error` is a factor on some row counts."""
        factor = error or {}
        rows = tuple(sorted(self.table))
        seconds = tuple(self.table[row] * factor.get(row, 1.0) for row in rows)
        cost = CostModel(CostTable(rows, (0,), (seconds,), rewind_s=self.rewind), max_rows=self.max_rows)
        for name, token in self.draft_token.items():
            cost.set_draft_s(name, {1: token, CEILING: CEILING * token})
        return cost


@dataclass
class Record:
    """What one sequence did in one round."""

    decision: Decision
    num_tokens: int


@dataclass
class Run:
    """A replay."""

    rounds: list[list[Record]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    plain_s: float = 0.0
    """What plain decoding of the same number of tokens would have taken."""

    @property
    def num_tokens(self) -> int:
        return sum(record.num_tokens for records in self.rounds for record in records)

    @property
    def speed(self) -> float:
        """Tokens in the time of a plain round, over sequences."""
        return self.num_tokens / sum(self.seconds)

    @property
    def against_plain(self) -> float:
        return self.plain_s / sum(self.seconds)

    def depths(self, start: int = 0, end: int | None = None) -> list[int]:
        """D of the first sequence, by round."""
        return [records[0].decision.num_draft_tokens for records in self.rounds[start:end]]


def replay(
    machine: Machine,
    texts: list[Mapping[str, Rate]],
    num_rounds: int,
    *,
    controller: Controller | None = None,
    seed: int = 0,
    adversary: bool = False,
    stalls: Mapping[int, float] | None = None,
) -> Run:
    """One sequence per text; a text has a rate for each drafter. Drafters without a draft cost are free.

    adversary: whatever is bet on is wrong, and whatever is not would have been right. stalls: seconds by round for
    which the machine stands still in it; no time of the run, for nobody decodes.
    """
    random = np.random.default_rng(seed)
    controller = controller or Controller(machine.cost_model())
    run = Run()
    for now in range(num_rounds):
        # How much of a full draft would be taken.
        right = [{name: _num_right(random, rate(now)) for name, rate in text.items()} for text in texts]
        decisions = controller.plan(
            [
                Candidate(
                    f"s{index}", now, [_offer(machine, name, CEILING if adversary else num) for name, num in each]
                )
                for index, each in enumerate(text.items() for text in right)
            ]
        )
        outcomes, records, rows = [], [], len(texts)
        draft_s: dict[str, float] = {}
        for index, each in enumerate(right):
            decision = decisions.get(f"s{index}", Decision())
            drafter, depth = decision.drafter, decision.num_draft_tokens
            taken = 0 if adversary or drafter is None else min(each[drafter], depth)
            if drafter is not None and drafter in machine.draft_token:
                cost = machine.draft_token[drafter] * depth * _noise(random, machine.noise)
                draft_s[drafter] = max(draft_s.get(drafter, 0.0), cost)
            token = _OTHER if adversary and depth else _TRUE
            outcomes.append(Outcome(f"s{index}", [token] * (taken + 1), drafter, depth, taken, [None] * depth))
            records.append(Record(decision, taken + 1))
            rows += depth
        rows = controller.rows_to_decode(rows)
        rewind_s = machine.rewind * sum(outcome.num_draft_tokens > 0 for outcome in outcomes)
        times = RoundTimes(rows, machine.verify(rows) * _noise(random, machine.noise), draft_s, rewind_s)
        stall_s = (stalls or {}).get(now, 0.0)
        controller.observe(replace(times, verify_s=times.verify_s + stall_s), outcomes)
        run.rounds.append(records)
        run.seconds.append(times.total_s)
        run.plain_s += sum(record.num_tokens for record in records) * machine.verify(len(texts)) / len(texts)
    return run


def expected_speed(machine: Machine, rate: float, depth: int, *, drafter: str = "free") -> float:
    """Of one sequence with a fixed D, tokens per T(1); three rows may be filled up to four, as the controller does."""
    tokens = sum(rate**position for position in range(depth + 1))
    rows = min((machine.verify(row) for row in range(1 + depth, 5 + depth)), default=1.0) if depth else 1.0
    return tokens / (rows + machine.draft_token.get(drafter, 0.0) * depth + machine.rewind * (depth > 0))


def best_speed(machine: Machine, rate: float, *, drafter: str = "free") -> float:
    """Of the best fixed D, none included."""
    return max(expected_speed(machine, rate, depth, drafter=drafter) for depth in range(CEILING + 1))


def good_depths(machine: Machine, rate: float, *, drafter: str = "free", within: float = 0.02) -> set[int]:
    """Every D that is as good as the best one, within a few percent."""
    best = best_speed(machine, rate, drafter=drafter)
    return {
        depth
        for depth in range(CEILING + 1)
        if expected_speed(machine, rate, depth, drafter=drafter) >= (1 - within) * best
    }


def _offer(machine: Machine, drafter: str, num_right: int) -> Offer:
    """The text is one token over and over: a free draft shows it as far as it is right."""
    if drafter in machine.draft_token:
        return Offer(drafter, CEILING)
    return Offer(drafter, CEILING, [_TRUE] * num_right + [_WRONG] * (CEILING - num_right), [None] * CEILING)


def _num_right(random: np.random.Generator, rate: float) -> int:
    if rate >= 1.0:
        return CEILING
    return min(int(random.geometric(1 - rate)) - 1, CEILING)


def _noise(random: np.random.Generator, spread: float) -> float:
    """A timing is hardly ever short, and now and then somebody else had the core."""
    spike = 1.8 if random.random() < 0.02 else 1.0
    return float(np.exp(random.normal(0.0, spread))) * spike
