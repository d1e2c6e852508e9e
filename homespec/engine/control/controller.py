"""The controller: which drafter and which D for every sequence of a round, D = 0 included."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from homespec.engine.control.choose import Bet, Choice
from homespec.engine.control.cost import CostModel
from homespec.engine.control.decision import (
    CERTAIN,
    DOES_NOT_PAY,
    NOT_MEASURED,
    PAUSED,
    PLAIN_MEASURED,
    Candidate,
    Decision,
    Offer,
    Outcome,
    RoundTimes,
)
from homespec.engine.control.early_stop import EarlyStop
from homespec.engine.control.experience import Experience
from homespec.engine.control.plain_times import PlainTimes
from homespec.engine.control.price_list import PriceList
from homespec.engine.control.prices import Placed, Prices
from homespec.engine.control.purse import Purses
from homespec.engine.control.restraint import Restraint
from homespec.engine.control.tally import Tally
from homespec.status import ReliabilityBin

_CHEAP_PROBE = 0.05
"""Share of a plain round that a probe may lose without waiting for its time: what is about even is not left alone."""
_NEW_NUMBERS_EVERY = 16
"""Rounds between new numbers for the reason of a pause."""
_MAX_TO_FOLLOW = 24
"""A drafter that has more tokens than this to catch up with does not show what a draft costs."""
_STOOD_STILL = 32.0
"""Plain rounds that a part of a round counts for at most: what takes longer, a machine that sleeps or a process that is
stopped, says nothing of drafts, and would use up the time for probes of hours.
"""


@dataclass(slots=True)
class _Plan:
    """Of the round that is going on."""

    candidates: Mapping[str, Candidate]
    """By sequence."""
    context: float
    """Mean number of tokens in the KV cache."""
    prices: Prices
    bets: dict[str, Bet]
    """By sequence."""
    choice: Choice
    depths: dict[str, int]
    """D by sequence."""
    probing: str | None = None
    """The paused drafter that shows what it is good for."""


class Controller:
    """Owned by the scheduler thread. `plan` before each round, `observe` after it, `forget` when a sequence ends."""

    def __init__(self, cost: CostModel, *, least_rows: int = 1) -> None:
        """least_rows: the engine never decodes fewer rows at once."""
        self.cost = cost
        self.tally = Tally()
        self._price_list = PriceList(cost, least_rows=least_rows)
        self._plain_times = PlainTimes()
        self._experience = Experience()
        self._restraint = Restraint()
        self._purses = Purses()
        self._now = 0
        """Rounds so far."""
        self._plan: _Plan | None = None

    def plan(self, candidates: Sequence[Candidate]) -> dict[str, Decision]:
        """One decision for each sequence that has offers."""
        started = time.perf_counter()
        self._now += 1
        decisions = self._decide_all(candidates)
        self.tally.decided(time.perf_counter() - started, len(candidates))
        return decisions

    def rows_to_decode(self, rows: int) -> int:
        """A few more than needed where the machine does them for less."""
        return self._plan.prices.rows_to_decode(rows) if self._plan is not None else rows

    def observe(self, times: RoundTimes, outcomes: Sequence[Outcome]) -> None:
        """Learn from the round that was planned."""
        started = time.perf_counter()
        plan, self._plan = self._plan, None
        if plan is not None:
            times = times.at_most(_STOOD_STILL * plan.prices.plain_s)
        self.cost.observe_verify(times.rows, plan.context if plan is not None else 0.0, times.verify_s)
        if plan is not None:
            self._learn(plan, times, outcomes)
        self.tally.decided(time.perf_counter() - started, 0)

    def forget(self, sequence_id: str) -> None:
        """The sequence is over; what was learned from it about drafters stays."""
        self._experience.forget(sequence_id)
        self._purses.forget(sequence_id)

    def paused(self) -> dict[str, str]:
        """Drafters that are left alone at the moment, with the reason in numbers."""
        return self._restraint.reasons(self._now)

    def reliability(self) -> dict[str, tuple[ReliabilityBin, ...]]:
        """How often draft tokens were taken, by drafter and confidence."""
        return self._experience.reliability()

    def hopeless(self) -> dict[str, str]:
        """Drafters that have been paused for thousands of rounds on end, with the reason in numbers."""
        return self._restraint.hopeless(self._now)

    def forgive(self, drafter: str) -> None:
        """Whatever it has lost: the next time it is offered it may be bet on."""
        self._restraint.forgive(drafter)

    # Before the round

    def _decide_all(self, candidates: Sequence[Candidate]) -> dict[str, Decision]:
        asking = [candidate for candidate in candidates if candidate.offers]
        if not self.cost.is_known:
            return {each.sequence_id: Decision(reason=NOT_MEASURED, note=NOT_MEASURED) for each in asking}
        context = sum([candidate.context for candidate in candidates]) / len(candidates)
        prices = self._price_list.of(candidates, context, self._now)
        self._restraint.begin_round(prices.one_row_s)
        self._plan = plan = _Plan(
            {each.sequence_id: each for each in candidates}, context, prices, {}, prices.without(0), {}
        )
        if not asking:
            return {}
        self._experience.begin_round()
        self._bet(plan, asking)
        if self._is_plain_due(plan):
            plan.choice, plan.depths = prices.without(0), dict.fromkeys(plan.bets, 0)
            note = f"the plain speed is measured again after {self._plain_times.age(self._now)} rounds"
            return {each.sequence_id: Decision(reason=PLAIN_MEASURED, note=note) for each in asking}
        if prices.draft_s:
            self._take_stock(plan)
            self._probe(plan)
        return {each.sequence_id: self._decide(plan, each) for each in asking}

    def _bet(self, plan: _Plan, asking: Sequence[Candidate]) -> None:
        """Of each sequence the best offer if only it drafted; then D for all of them together."""
        best: Placed | None = None
        for candidate in asking:
            bets = [
                bet
                for offer in candidate.offers
                if self._restraint.is_allowed(offer.drafter, self._now)
                and (bet := self._bet_on(plan.prices, candidate.sequence_id, offer)).survival
            ]
            if len(bets) > 1 and plan.prices.has_room:
                placed = [plan.prices.best(bet) for bet in bets]
                index = max(range(len(bets)), key=lambda index: placed[index].speed)
                plan.bets[candidate.sequence_id], best = bets[index], placed[index]
            elif bets:
                plan.bets[candidate.sequence_id], best = bets[0], None
        if best is not None and len(plan.bets) == 1:
            plan.choice = plan.prices.choose_alone(next(iter(plan.bets.values())), best)
        else:
            plan.choice = plan.prices.choose(list(plan.bets.values()))
        plan.depths = dict(zip(plan.bets, plan.choice.num_draft_tokens, strict=True))

    def _bet_on(self, prices: Prices, sequence_id: str, offer: Offer) -> Bet:
        """No more of a draft that may well be wrong than the sequence can lose."""
        bet = Bet(offer.drafter, self._experience.survival(sequence_id, offer))
        if not offer.is_guess:
            return bet
        return prices.affordable(bet, self._purses.held(sequence_id))

    def _is_plain_due(self, plan: _Plan) -> bool:
        if not self._plain_times.is_due(self._now) or not any(plan.depths.values()):
            return False
        if plan.prices.num_rows > plan.prices.num_sequences:
            return False  # with what a request has fixed there is no plain round
        # Fewer rows take no longer, whatever is thought of them: what looks too dear to measure may just be wrong.
        plain_s = min(plan.prices.plain_s, plan.choice.seconds)
        loss_s = plain_s - plan.prices.num_sequences / plan.choice.speed
        if self._restraint.can_afford(loss_s) or self._plain_times.is_overdue(self._now):
            self._restraint.spend(loss_s)
            return True
        return False

    def _take_stock(self, plan: _Plan) -> None:
        """A drafter that takes time and gets no token from anybody is paused; one that gets some is not."""
        for name in plan.prices.draft_s:
            mine = {sequence_id: bet for sequence_id, bet in plan.bets.items() if bet.drafter == name}
            if any(plan.depths[sequence_id] for sequence_id in mine):
                self._restraint.resume(name)
            elif mine and plan.prices.has_room:
                if self._restraint.is_paused(name) and self._now % _NEW_NUMBERS_EVERY:
                    continue
                nearest = max(mine.values(), key=lambda bet: plan.prices.best(bet).speed)
                self._restraint.turn_down(name, self._now, Decision(bet=nearest, prices=plan.prices).price)

    def _probe(self, plan: _Plan) -> None:
        """Let a paused drafter draft a little, where nothing else is drafted, if it is time and can be afforded."""
        for sequence_id, bet in plan.bets.items():
            takes_time = bet.drafter in plan.prices.draft_s
            if not takes_time or plan.depths[sequence_id] or not plan.prices.has_room:
                continue
            num_tokens, loss_s = plan.prices.probe(bet)
            if self._restraint.is_due(bet.drafter, self._now) or loss_s <= _CHEAP_PROBE * plan.prices.plain_s:
                num_to_follow = self._experience.num_to_follow(plan.candidates[sequence_id], bet.drafter)
                if self._restraint.can_afford(loss_s + plan.prices.catch_up_s(bet.drafter, num_to_follow)):
                    plan.probing, plan.depths[sequence_id] = bet.drafter, num_tokens
                    return

    def _decide(self, plan: _Plan, candidate: Candidate) -> Decision:
        prices, bet = plan.prices, plan.bets.get(candidate.sequence_id)
        if bet is None or not prices.has_room:
            reasons = self.paused()
            names = [offer.drafter for offer in candidate.offers if offer.drafter in reasons]
            if not names and prices.has_room:
                held = self._purses.held(candidate.sequence_id)
                note = f"drafts may lose no more than {held:.2f} T({prices.num_sequences}) on this text by now"
                return Decision(reason=DOES_NOT_PAY, note=note)
            return Decision(reason=PAUSED, note="; ".join(f"{name} {reasons[name]}" for name in names) or "no room")
        num_tokens = plan.depths[candidate.sequence_id]
        if not num_tokens:
            reason = PAUSED if self._restraint.is_paused(bet.drafter) else DOES_NOT_PAY
            return Decision(reason=reason, bet=bet, prices=prices)
        is_probe = plan.probing == bet.drafter
        stop = None
        if bet.drafter in prices.draft_s:
            growing = self._experience.acceptance(bet.drafter).grow(candidate.sequence_id)
            stop = EarlyStop(growing, bet, prices, plan.choice.speed, num_tokens)
        return Decision(
            bet.drafter,
            num_tokens,
            note="a probe of a paused drafter" if is_probe else "",
            bet=bet,
            prices=prices,
            round_s=prices.seconds(bet, num_tokens) if is_probe else plan.choice.seconds,
            should_continue=stop,
        )

    # After the round

    def _learn(self, plan: _Plan, times: RoundTimes, outcomes: Sequence[Outcome]) -> None:
        drafted = [outcome for outcome in outcomes if outcome.num_draft_tokens]
        if drafted and times.rewind_s:
            self.cost.observe_rewind(len(drafted), times.rewind_s)
        for name, seconds in times.draft_s.items():
            mine = [outcome for outcome in drafted if outcome.drafter == name]
            behind = [self._experience.num_to_follow(plan.candidates[each.sequence_id], name) for each in mine]
            if mine and max(behind) <= _MAX_TO_FOLLOW:
                longest = max(outcome.num_draft_tokens for outcome in mine)
                self.cost.observe_draft(name, len(mine), longest, plan.context, seconds)
        for outcome in outcomes:
            self._experience.learn(plan.candidates[outcome.sequence_id], outcome)
        spent_s = times.total_s
        self._purses.book(plan.prices, plan.candidates, outcomes, spent_s)
        if not drafted:
            self._plain_times.seen(self._now, times.verify_s / plan.prices.plain_s)
        self._settle(plan, spent_s, outcomes, drafted)

    def _settle(self, plan: _Plan, spent_s: float, outcomes: Sequence[Outcome], drafted: Sequence[Outcome]) -> None:
        """What the round was worth."""
        prices, plain_s = plan.prices, plan.prices.sequences_s
        num_tokens = sum([len(outcome.kept) for outcome in outcomes])
        self._restraint.pass_time(spent_s)
        if plan.probing is not None:
            self._restraint.spend(spent_s - num_tokens / prices.num_sequences * plain_s)
            judged = [outcome for outcome in drafted if outcome.drafter == plan.probing]
            if judged:  # else it was still catching up
                self._restraint.probed(plan.probing, self._now, won=any(each.num_taken for each in judged))
            return
        if any(candidate.num_fixed for candidate in plan.candidates.values()):
            return  # not a round of the controller's
        for name in {outcome.drafter for outcome in drafted} - {CERTAIN, None}:
            assert name is not None
            self._restraint.book(name, self._now, num_tokens / prices.num_sequences, spent_s / plain_s)
        self.tally.add(
            planned_tokens=plan.choice.expected_tokens,
            planned_s=plan.choice.seconds,
            tokens=num_tokens,
            spent_s=spent_s,
            plain_token_s=plain_s / prices.num_sequences,
        )
