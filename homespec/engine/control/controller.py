"""The controller: which drafter and which D for every sequence of a round, D = 0 included."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from homespec.engine.control.choose import Bet, Choice
from homespec.engine.control.cost import CostModel, filled
from homespec.engine.control.decision import (
    DOES_NOT_PAY,
    NOT_MEASURED,
    PAUSED,
    PLAIN_MEASURED,
    Candidate,
    Decision,
    Outcome,
    RoundTimes,
)
from homespec.engine.control.early_stop import EarlyStop
from homespec.engine.control.experience import CERTAIN, Experience
from homespec.engine.control.prices import Prices
from homespec.engine.control.restraint import Restraint
from homespec.engine.control.tally import Tally

PLAIN_EVERY = 128
"""Rounds without a plain one before the plain speed is measured again; fewer at first, and after a surprise."""
_PLAIN_AT_FIRST, _PLAIN_AFTER_SURPRISE = 16, 4
_SURPRISE = 1.2
"""Factor between the plain speed as it was thought to be and as it is."""
_CHEAP_PROBE = 0.05
"""Share of a plain round that a probe may lose without waiting for its time: what is about even is not left alone."""
_PRICED_FOR = 16
"""Rounds that measured prices are good for: they move slowly, and take time to compute."""
_NEW_NUMBERS_EVERY = 16
"""Rounds between new numbers for the reason of a pause."""
_MAX_TO_FOLLOW = 24
"""A drafter that has more tokens than this to catch up with does not show what a draft costs."""


@dataclass(slots=True)
class _Plan:
    """Of the round that is going on."""

    candidates: Mapping[str, Candidate]
    context: float
    """Mean number of tokens in the KV cache."""
    prices: Prices
    bets: Mapping[str, Bet]
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
        self._least_rows = least_rows
        self.tally = Tally()
        self._experience = Experience()
        self._restraint = Restraint()
        self._now = 0
        """Rounds so far."""
        self._last_plain = 0
        self._plain_wait = _PLAIN_AT_FIRST
        self._plan: _Plan | None = None
        self._priced: tuple[tuple[object, ...], Prices] | None = None

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
        self.cost.observe_verify(times.rows, plan.context if plan is not None else 0.0, times.verify_s)
        if plan is not None:
            self._learn(plan, times, outcomes)
        self.tally.decided(time.perf_counter() - started, 0)

    def forget(self, sequence_id: str) -> None:
        """The sequence is over; what was learned from it about drafters stays."""
        self._experience.forget(sequence_id)

    def paused(self) -> dict[str, str]:
        """Drafters that are left alone at the moment, with the reason in numbers."""
        return self._restraint.reasons(self._now)

    # Before the round

    def _decide_all(self, candidates: Sequence[Candidate]) -> dict[str, Decision]:
        asking = [candidate for candidate in candidates if candidate.offers]
        if not self.cost.is_known:
            return {each.sequence_id: Decision(reason=NOT_MEASURED, note=NOT_MEASURED) for each in asking}
        context = sum(candidate.context for candidate in candidates) / len(candidates)
        prices = self._price(candidates, context)
        self._restraint.begin_round(float(prices.verify_s[1]))
        self._experience.begin_round()
        bets = {each.sequence_id: bet for each in asking if (bet := self._bet(each, prices)) is not None}
        choice = prices.choose(list(bets.values()))
        depths = dict(zip(bets, choice.num_draft_tokens, strict=True))
        self._plan = plan = _Plan(
            {each.sequence_id: each for each in candidates}, context, prices, bets, choice, depths
        )
        if self._is_plain_due(plan):
            plan.choice, plan.depths = prices.choose([]), dict.fromkeys(bets, 0)
            note = f"the plain speed is measured again after {self._now - self._last_plain} rounds"
            return {each.sequence_id: Decision(reason=PLAIN_MEASURED, note=note) for each in asking}
        self._take_stock(plan)
        self._probe(plan)
        return {each.sequence_id: self._decide(plan, each) for each in asking}

    def _price(self, candidates: Sequence[Candidate], context: float) -> Prices:
        """Those of a few rounds ago will do, as long as nothing else has changed: costs move slowly."""
        num_rows = len(candidates) + sum(candidate.num_fixed for candidate in candidates)
        costly = [offer.drafter for candidate in candidates for offer in candidate.offers if not offer.is_free]
        lasts = _PRICED_FOR if self.cost.is_measured else 1
        key = (len(candidates), num_rows, context // 64, self._now // lasts, *costly)
        if self._priced is None or self._priced[0] != key:
            seconds, rows = filled(self.cost.verify_s(context), self._least_rows)
            draft_s = {name: self.cost.draft_s(name, count, context) for name, count in Counter(costly).items()}
            num_rows = min(num_rows, len(seconds) - 1)
            prices = Prices(
                num_sequences=len(candidates), num_rows=num_rows, verify_s=seconds, rows=rows, draft_s=draft_s
            )
            self._priced = key, prices
        return self._priced[1]

    def _bet(self, candidate: Candidate, prices: Prices) -> Bet | None:
        """The offer with the best speed if only this sequence drafted; None when all its drafters are out of use."""
        bets = [
            Bet(offer.drafter, self._experience.survival(candidate.sequence_id, offer))
            for offer in candidate.offers
            if self._restraint.is_allowed(offer.drafter, self._now)
        ]
        if len(bets) < 2 or not prices.has_room:
            return bets[0] if bets else None
        return max(bets, key=lambda bet: prices.alone(bet).speed)

    def _is_plain_due(self, plan: _Plan) -> bool:
        if self._now - self._last_plain < self._plain_wait or not any(plan.depths.values()):
            return False
        loss_s = plan.prices.plain_s - plan.prices.num_sequences / plan.choice.speed
        if self._restraint.can_afford(loss_s):
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
                nearest = max(mine.values(), key=lambda bet: plan.prices.alone(bet).speed)
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
            return Decision(reason=PAUSED, note="; ".join(f"{name} {reasons[name]}" for name in names) or "no room")
        num_tokens = plan.depths[candidate.sequence_id]
        if not num_tokens:
            reason = PAUSED if self._restraint.is_paused(bet.drafter) else DOES_NOT_PAY
            return Decision(reason=reason, bet=bet, prices=prices)
        is_probe = plan.probing == bet.drafter
        stop = None
        if bet.drafter in prices.draft_s:
            acceptance = self._experience.acceptance(bet.drafter)
            stop = EarlyStop(acceptance, candidate.sequence_id, bet.drafter, prices, plan.choice.speed, num_tokens)
        return Decision(
            bet.drafter,
            num_tokens,
            note="a probe of a paused drafter" if is_probe else "",
            bet=bet,
            prices=prices,
            round_s=prices.alone(bet, num_tokens).seconds if is_probe else plan.choice.seconds,
            should_continue=stop,
        )

    # After the round

    def _learn(self, plan: _Plan, times: RoundTimes, outcomes: Sequence[Outcome]) -> None:
        drafted = [outcome for outcome in outcomes if outcome.num_draft_tokens]
        for name, seconds in times.draft_s.items():
            mine = [outcome for outcome in drafted if outcome.drafter == name]
            behind = [self._experience.num_to_follow(plan.candidates[each.sequence_id], name) for each in mine]
            if mine and max(behind) <= _MAX_TO_FOLLOW:
                longest = max(outcome.num_draft_tokens for outcome in mine)
                self.cost.observe_draft(name, len(mine), longest, plan.context, seconds)
        for outcome in outcomes:
            self._experience.learn(plan.candidates[outcome.sequence_id], outcome)
        if not drafted:
            self._plain_seen(times.verify_s / plan.prices.plain_s)
        self._settle(plan, times, outcomes, drafted)

    def _plain_seen(self, ratio: float) -> None:
        """A plain round took so many times what it was thought to."""
        if self._now - self._last_plain >= self._plain_wait:
            as_thought = 1 / _SURPRISE < ratio < _SURPRISE
            self._plain_wait = min(2 * self._plain_wait, PLAIN_EVERY) if as_thought else _PLAIN_AFTER_SURPRISE
        self._last_plain = self._now

    def _settle(self, plan: _Plan, times: RoundTimes, outcomes: Sequence[Outcome], drafted: Sequence[Outcome]) -> None:
        """What the round was worth."""
        prices = plan.prices
        num_tokens = sum(len(outcome.kept) for outcome in outcomes)
        plain_s = float(prices.verify_s[min(prices.num_sequences, prices.num_rows)])
        self._restraint.pass_time(times.total_s)
        if plan.probing is not None:
            self._restraint.spend(times.total_s - num_tokens / prices.num_sequences * plain_s)
            judged = [outcome for outcome in drafted if outcome.drafter == plan.probing]
            if judged:  # else it was still catching up
                self._restraint.probed(plan.probing, self._now, won=any(each.num_taken for each in judged))
            return
        if any(candidate.num_fixed for candidate in plan.candidates.values()):
            return  # not a round of the controller's
        for name in {outcome.drafter for outcome in drafted} - {CERTAIN, None}:
            assert name is not None
            self._restraint.book(name, self._now, num_tokens / prices.num_sequences, times.total_s / plain_s)
        self.tally.add(
            planned_tokens=plan.choice.expected_tokens,
            planned_s=plan.choice.seconds,
            tokens=num_tokens,
            spent_s=times.total_s,
            plain_token_s=plain_s / prices.num_sequences,
        )
