"""Whatever drafters, clocks and kept tables say: the controller answers, and comes back to plain speed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from homespec.engine.control.controller import Controller
from homespec.engine.control.cost import CostModel, CostTable
from homespec.engine.control.decision import Candidate, Decision, Offer, Outcome, RoundTimes
from homespec.engine.control.pause import LONGEST_WAIT
from homespec.engine.control.restraint import Restraint
from tests.engine.control.simulator import CEILING, F16, Machine, replay

_COSTLY = ("draft", "eagle3")
_NAMES = ("suffix", "ngram", "grammar", *_COSTLY)
_CONFIDENCES = (None, -1.0, 0.0, 0.5, 1.0, 2.0, math.nan)


class _Chaos:
    """Rounds that nobody would believe, all of a seed."""

    def __init__(self, controller: Controller, seed: int) -> None:
        self._controller = controller
        self._random = np.random.default_rng(seed)

    def round(self, now: int) -> None:
        candidates = [self._candidate(index, now) for index in range(self._random.integers(1, 5))]
        decisions = self._controller.plan(candidates)
        outcomes = [self._outcome(each, decisions.get(each.sequence_id, Decision())) for each in candidates]
        num_rows = sum(1 + outcome.num_draft_tokens for outcome in outcomes)
        rows = min(self._controller.rows_to_decode(num_rows), self._controller.cost.max_rows)
        draft_s = {outcome.drafter: self._seconds() for outcome in outcomes if outcome.drafter in _COSTLY}
        times = RoundTimes(rows, self._seconds(), {name: s for name, s in draft_s.items() if name}, self._seconds())
        self._controller.observe(times, outcomes)
        if self._random.random() < 0.05:
            self._controller.forget(f"s{self._random.integers(4)}")

    def _candidate(self, index: int, now: int) -> Candidate:
        context = int(self._random.choice([0, now, 10**6]))
        if self._random.random() < 0.2:
            return Candidate(f"s{index}", context, num_fixed=int(self._random.integers(CEILING + 1)))
        names = self._random.permutation(_NAMES)[: self._random.integers(4)]
        return Candidate(f"s{index}", context, [self._offer(str(name)) for name in names])

    def _offer(self, name: str) -> Offer:
        length = int(self._random.integers(1, CEILING + 1))
        if name in _COSTLY:
            return Offer(name, length)
        return Offer(name, length, self._random.integers(1, 3, length).tolist(), self._confidences(length))

    def _outcome(self, candidate: Candidate, decision: Decision) -> Outcome:
        limits = {offer.drafter: offer.max_tokens for offer in candidate.offers}
        depth = decision.num_draft_tokens
        assert 0 <= depth <= limits.get(decision.drafter or "", 0)
        assert not candidate.offers or decision.text
        if decision.should_continue is not None:
            for position, confidence in enumerate(self._confidences(CEILING + 4)):
                decision.should_continue(position, confidence)
        depth = int(self._random.integers(depth + 1)) if self._random.random() < 0.1 else depth
        depth = depth or candidate.num_fixed
        num_taken = int(self._random.integers(depth + 1))
        kept = self._random.integers(1, 3, num_taken + 1).tolist()[: self._random.integers(CEILING)]
        drafter = decision.drafter or ("draft" if candidate.num_fixed else None)
        return Outcome(candidate.sequence_id, kept, drafter, depth, num_taken, self._confidences(depth))

    def _confidences(self, length: int) -> list[float | None]:
        return [_CONFIDENCES[index] for index in self._random.integers(len(_CONFIDENCES), size=length)]

    def _seconds(self) -> float:
        """Most of them near 1; a few of a clock that was set, or of a machine that slept."""
        exponent = self._random.uniform(-6, 6) if self._random.random() < 0.1 else self._random.uniform(-0.5, 0.5)
        return float(10.0**exponent)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(12))
def test_it_always_answers_and_comes_back_to_plain_speed(seed: int) -> None:
    random = np.random.default_rng(seed)
    max_rows = int(random.choice([1, 2, 17, 68]))
    rows = (1, *sorted({int(row) for row in random.integers(2, 68, 6)}))
    seconds = tuple(float(10.0 ** random.uniform(-6, 3)) for _ in rows)
    controller = Controller(CostModel(CostTable(rows, (32,), (seconds,)) if seed % 3 else None, max_rows=max_rows))
    chaos = _Chaos(controller, seed)
    for now in range(200):
        chaos.round(now)
    machine = Machine(F16, {"draft": 0.5}, noise=0.0, max_rows=max_rows)
    text = {"suffix": lambda _now: 0.02, "draft": lambda _now: 0.02}
    run = replay(machine, [text], 6000, controller=controller)
    assert sum(depth > 0 for depth in run.depths(5000)) <= 0.05 * 1000


def test_what_lost_by_the_clock_again_and_again_is_tried_again_all_the_same() -> None:
    """A wait that doubles for ever would be one of months."""
    restraint, now, longest = Restraint(), 0, 0
    for _ in range(24):
        began = now
        while not restraint.is_allowed("suffix", now):
            now += 1
        longest = max(longest, now - began)
        for _ in range(64):
            restraint.book("suffix", now, 1.0, 2.0)
    assert longest == LONGEST_WAIT
