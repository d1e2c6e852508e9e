"""What a sequence may lose on drafts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.control import purse
from homespec.engine.control.choose import Bet
from homespec.engine.control.controller import Controller
from homespec.engine.control.decision import Candidate, Offer, Outcome, RoundTimes
from homespec.engine.control.prices import Prices
from homespec.engine.control.purse import START, Purses

from .simulator import CEILING, MACHINES, Machine, Rate, replay

machines = pytest.mark.parametrize("name", MACHINES)


def steady(rate: float) -> Rate:
    return lambda now: rate


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 8)), max_size=200))
def test_losses_are_bounded_by_what_was_there_what_came_in_and_what_was_right(rounds: list[tuple[bool, float]]) -> None:
    """Nobody bets more than the purse holds."""
    purses, lost, num_right = Purses(), 0.0, 0
    for was_right, wish in rounds:
        stake = min(wish, purses.held("a"))
        if was_right:
            num_right += 1
            purses.watch("a", was_right=True)
        else:
            lost += stake
            purses.settle("a", -stake)
        assert purses.held("a") > 0
    assert lost <= START + 0.02 * len(rounds) + 0.5 * num_right + 1e-9


def test_what_is_won_may_be_bet_again_and_each_sequence_has_its_own() -> None:
    purses = Purses()
    purses.settle("a", 12.0)
    assert purses.held("a") > START + 12.0
    assert purses.held("b") == START
    purses.forget("a")
    assert purses.held("a") == START


def test_tokens_that_would_have_been_right_fill_it_no_further_than_at_the_start() -> None:
    purses = Purses()
    purses.settle("a", -9.0)
    for _ in range(5):
        purses.watch("a", was_right=True)
    assert START <= purses.held("a") <= START + 0.02 * 6
    purses.settle("b", 5.0)
    before = purses.held("b")
    purses.watch("b", was_right=True)
    assert purses.held("b") == pytest.approx(before + 0.02)


@given(st.lists(st.floats(0.05, 2.0), min_size=2, max_size=20), st.floats(0.0, 9.0))
def test_no_affordable_bet_can_lose_more(steps: list[float], held: float) -> None:
    verify_s = np.concatenate([[0.0, 1.0], 1.0 + np.cumsum(steps)])
    prices = Prices(num_sequences=1, num_rows=1, verify_s=verify_s, rows=np.arange(len(verify_s)), draft_s={})
    bet = Bet("free", [0.9] * len(steps))
    affordable = prices.affordable(bet, held)
    depth = len(affordable.survival)
    assert depth == 0 or prices.seconds(affordable, depth) <= 1.0 + held + 1e-9
    assert depth == len(steps) or prices.seconds(bet, depth + 1) > 1.0 + held - 1e-9


@machines
def test_a_text_that_does_not_repeat_itself_loses_little_after_many_that_did(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def speed(start: float) -> float:
        monkeypatch.setattr(purse, "START", start)
        machine = Machine(MACHINES[name], noise=0.0)
        controller = Controller(machine.cost_model())
        for text in range(12):
            replay(machine, [{"free": steady(0.97)}], 60, controller=controller, seed=text)
            controller.forget("s0")
        return replay(machine, [{"free": steady(0.02)}], 40, controller=controller, seed=99).against_plain

    assert speed(START) >= 0.9
    assert speed(1e9) <= speed(START) - 0.03


@machines
def test_a_text_that_repeats_itself_is_soon_drafted_to_the_full(name: str) -> None:
    machine = Machine(MACHINES[name], noise=0.0)
    run = replay(machine, [{"free": steady(1.0)}], 40)
    assert max(run.depths(0, 2)) < CEILING
    assert min(run.depths(20)) >= 12


@pytest.mark.parametrize("drafter", ["grammar", "draft", None])
@pytest.mark.parametrize("is_right", [True, False])
def test_only_guesses_are_paid_for(drafter: str | None, is_right: bool) -> None:
    """What is forced, takes time to make or was fixed by the request is no business of the purse."""
    machine = Machine(MACHINES["q4_0"], {"draft": 0.01}, noise=0.0)
    controller = Controller(machine.cost_model())
    offers = [Offer("grammar", 8, [1] * 8, [None] * 8)] if drafter == "grammar" else [Offer("draft", 8)]
    for now in range(10):
        controller.plan([Candidate("s", now, offers if drafter else [], 0 if drafter else 8)])
        text = [1] * 9 if is_right else [2]
        rounds = RoundTimes(9, machine.verify(9), {})
        controller.observe(rounds, [Outcome("s", text, drafter or "ngram", 8, len(text) - 1, [None] * 8)])
    sure = Offer("suffix", CEILING, [1] * CEILING, [0.99] * CEILING)
    depth = controller.plan([Candidate("s", 200, [sure])])["s"].num_draft_tokens
    assert depth
    assert machine.verify(1 + depth) <= 1.0 + START + 10 * 0.02


@machines
def test_nobody_pays_for_what_another_request_has_fixed(name: str) -> None:
    """Its rows are decoded in any case; a draft beside them loses only what it adds."""
    machine = Machine(MACHINES[name], noise=0.0)
    alone, beside = (Controller(machine.cost_model()) for _ in range(2))
    for now in range(6):
        for controller, num_fixed in ((alone, 0), (beside, 12)):
            candidates = [Candidate("s", now, [Offer("ngram", 1, [1], [0.99])])]
            outcomes = [Outcome("s", [1, 1], "ngram", 1, 1, [0.99])]
            if num_fixed:
                candidates.append(Candidate("pinned", now, num_fixed=num_fixed))
                outcomes.append(Outcome("pinned", [2], "draft", num_fixed, 0, [None] * num_fixed))
            controller.plan(candidates)
            rows = len(candidates) + num_fixed + 1
            controller.observe(RoundTimes(rows, machine.verify(rows)), outcomes)
    sure = Offer("ngram", CEILING, [1] * CEILING, [0.99] * CEILING)
    depths = [each.plan([Candidate("s", 6, [sure])])["s"].num_draft_tokens for each in (alone, beside)]
    assert depths[1] >= depths[0] - 2
