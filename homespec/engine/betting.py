"""Drafts as the controller decides: what costs nothing is drafted first, what takes time only where it pays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter

from homespec.engine.control.controller import Controller
from homespec.engine.control.decision import Candidate, Decision, Offer, Outcome, RoundTimes
from homespec.engine.drafted import GRAMMAR, Drafted
from homespec.engine.drafters.choice import FREE
from homespec.engine.drafters.drafter import Drafter, ShouldContinue
from homespec.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Wanted:
    """A draft to be made."""

    sequence: Sequence
    max_tokens: int
    should_continue: ShouldContinue | None = None
    min_confidence: float = 0.0
    """See DraftRequest."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A sequence that leaves it to the controller."""

    sequence: Sequence
    drafters: tuple[Drafter, ...]
    """That may draft for it, the preferred one first."""
    limit: int
    """At least 1."""
    forced: list[int]
    """What its constraint forces."""


Make = Callable[[Drafter, list[Wanted]], list[Drafted]]
"""Let one drafter draft for several sequences, and cut what the target or a constraint would not take."""


class Betting:
    """Between rounds and the controller. Owned by the scheduler thread."""

    def __init__(self, controller: Controller, make: Make) -> None:
        self.controller = controller
        self._make = make
        self._draft_s: dict[str, float] = {}

    def draft(
        self, asking: list[Asking], sequences: list[Sequence], fixed: Mapping[str, Drafted]
    ) -> dict[str, Drafted]:
        """A draft, or the reason for none, for each sequence that asks. fixed: of those that do not."""
        self._draft_s.clear()
        ready = self._ready(asking)
        offers = {each.sequence.id: self._offers(each, ready[each.sequence.id]) for each in asking}
        decisions = self.controller.plan(
            [
                Candidate(
                    sequence.id,
                    sequence.num_computed_tokens,
                    offers.get(sequence.id, ()),
                    len(fixed[sequence.id].proposals) if sequence.id in fixed else 0,
                )
                for sequence in sequences
            ]
        )
        made = self._made(asking, decisions)
        return {
            each.sequence.id: made.get(each.sequence.id)
            or _taken(ready[each.sequence.id], decisions.get(each.sequence.id))
            for each in asking
        }

    def observe(
        self,
        rows: int,
        verify_s: float,
        rewind_s: float,
        drafted: Mapping[str, Drafted],
        results: list[tuple[Sequence, list[int], int]],
    ) -> None:
        """Tell the controller what came of it. results: tokens that each sequence kept, how many were drafts."""
        outcomes = [
            Outcome(
                sequence.id,
                kept,
                drafted[sequence.id].drafter,
                len(drafted[sequence.id].proposals),
                num_accepted,
                drafted[sequence.id].confidences,
            )
            for sequence, kept, num_accepted in results
        ]
        self.controller.observe(RoundTimes(rows, verify_s, dict(self._draft_s), rewind_s), outcomes)

    def _ready(self, asking: list[Asking]) -> dict[str, dict[str, Drafted]]:
        """Drafts that cost nothing, by sequence and drafter; what a constraint forces beats them all."""
        ready: dict[str, dict[str, Drafted]] = {each.sequence.id: {} for each in asking}
        calls: defaultdict[str, list[Asking]] = defaultdict(list)
        drafters: dict[str, Drafter] = {}
        for each in asking:
            if each.forced:
                ready[each.sequence.id][GRAMMAR] = Drafted.forced(each.forced)
                continue
            for drafter in each.drafters:
                if drafter.name in FREE:
                    drafters[drafter.name] = drafter
                    calls[drafter.name].append(each)
        for name, callers in calls.items():
            drafts = self._make(drafters[name], [Wanted(each.sequence, each.limit) for each in callers])
            for each, draft in zip(callers, drafts, strict=True):
                ready[each.sequence.id][name] = draft
        return ready

    def _offers(self, asking: Asking, ready: Mapping[str, Drafted]) -> list[Offer]:
        if GRAMMAR in ready:
            return [_offer(ready[GRAMMAR])]
        offers = []
        for drafter in asking.drafters:
            if drafter.name not in FREE:
                offers.append(Offer(drafter.name, asking.limit))
            elif ready[drafter.name].proposals:
                offers.append(_offer(ready[drafter.name]))
        return offers

    def _made(self, asking: list[Asking], decisions: Mapping[str, Decision]) -> dict[str, Drafted]:
        """The drafts that had to be made; each drafter is asked once, for all its sequences."""
        calls: defaultdict[str, list[Wanted]] = defaultdict(list)
        drafters: dict[str, Drafter] = {}
        for each in asking:
            decision = decisions.get(each.sequence.id)
            for drafter in each.drafters:
                if decision is not None and drafter.name == decision.drafter and drafter.name not in FREE:
                    drafters[drafter.name] = drafter
                    calls[drafter.name].append(
                        Wanted(each.sequence, decision.num_draft_tokens, decision.should_continue)
                    )
        made: dict[str, Drafted] = {}
        for name, wanted in calls.items():
            started = perf_counter()
            drafts = self._make(drafters[name], wanted)
            self._draft_s[name] = perf_counter() - started
            for want, draft in zip(wanted, drafts, strict=True):
                made[want.sequence.id] = replace(draft, decision=decisions[want.sequence.id])
        return made


def _offer(drafted: Drafted) -> Offer:
    assert drafted.drafter is not None
    return Offer(drafted.drafter, len(drafted.proposals), drafted.token_ids, drafted.confidences)


def _taken(ready: Mapping[str, Drafted], decision: Decision | None) -> Drafted:
    """As much of a draft that exists as the controller wants of it."""
    if decision is None:
        reason = next((draft.reason for draft in ready.values()), "no drafter is ready")
        return Drafted(None, [], reason, Decision(reason=reason, note=reason))
    if decision.drafter is None:
        return Drafted(None, [], decision.reason, decision)
    proposals = ready[decision.drafter].proposals[: decision.num_draft_tokens]
    return Drafted(decision.drafter, proposals, decision=decision)
