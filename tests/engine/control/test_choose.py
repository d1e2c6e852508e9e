"""The choice is the best there is, checked against trying everything."""

from __future__ import annotations

from itertools import accumulate, product
from operator import mul

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from homespec.engine.control.choose import PREMIUM, Bet, choose, pays
from homespec.engine.control.cost import Seconds
from homespec.engine.control.prices import Prices
from tests.engine.control.simulator import MACHINES, Machine

chances = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4).map(lambda rates: list(accumulate(rates, mul)))
costs = st.lists(st.floats(0.2, 3.0), min_size=14, max_size=14).map(lambda each: np.asarray([0.0, *each]))


def chain(rate: float, length: int) -> list[float]:
    return [rate ** (position + 1) for position in range(length)]


def best_by_trying(
    bets: list[Bet], num_tokens: int, num_rows: int, verify_s: Seconds, draft_s: dict[str, Seconds]
) -> float:
    """Tokens per second of the best D for each bet."""
    best = 0.0
    for depths in product(*(range(len(bet.survival) + 1) for bet in bets)):
        rows = num_rows + sum(depths)
        if rows >= len(verify_s):
            continue
        seconds = verify_s[rows]
        for name, by_depth in draft_s.items():
            seconds += by_depth[max(d if bet.drafter == name else 0 for d, bet in zip(depths, bets, strict=True))]
        tokens = num_tokens + sum(sum(bet.survival[:depth]) for depth, bet in zip(depths, bets, strict=True))
        best = max(best, tokens / seconds)
    return best


def is_the_best_that_is_worth_it(speed: float, best: float, plain: float) -> bool:
    """The fastest set of free drafts where that is expected to be clearly faster than none, else none."""
    limit = PREMIUM * plain
    if best > limit * (1 + 1e-9):
        return speed == pytest.approx(best)
    return speed == pytest.approx(plain) or (best > limit * (1 - 1e-9) and speed == pytest.approx(best))


@settings(max_examples=60)
@given(st.lists(chances, max_size=3), costs, st.integers(0, 3))
def test_no_other_set_of_free_drafts_is_faster(chains: list[list[float]], verify_s: Seconds, num_plain: int) -> None:
    bets = [Bet("free", survival) for survival in chains]
    count = len(bets) + num_plain
    if not count:
        return
    choice = choose(bets, num_tokens=count, num_rows=count, verify_s=verify_s, draft_s={})
    best = best_by_trying(bets, count, count, verify_s, {})
    assert is_the_best_that_is_worth_it(choice.speed, best, count / verify_s[count])
    assert choice.seconds == pytest.approx(verify_s[count + sum(choice.num_draft_tokens)])


@settings(max_examples=60)
@given(chances, costs, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_drafter_that_takes_time_gets_its_best_d(
    survival: list[float], verify_s: Seconds, first_s: float, token_s: float
) -> None:
    bets = [Bet("draft", survival)]
    draft_s = {"draft": np.asarray([0.0, *(first_s + token_s * np.arange(1, 17))])}
    choice = choose(bets, num_tokens=1, num_rows=1, verify_s=verify_s, draft_s=draft_s)
    assert choice.speed == pytest.approx(best_by_trying(bets, 1, 1, verify_s, draft_s))


@given(chances, costs, st.integers(1, 3), st.floats(0.0, 2.0), st.floats(0.0, 1.0))
def test_a_single_bet_is_chosen_like_one_of_many(
    survival: list[float], verify_s: Seconds, num_sequences: int, rewind_s: float, token_s: float
) -> None:
    bet, draft_s = Bet("draft", survival), {"draft": token_s * np.arange(17.0)}
    rows = np.arange(len(verify_s))
    prices = Prices(
        num_sequences=num_sequences,
        num_rows=num_sequences,
        verify_s=verify_s,
        rows=rows,
        draft_s=draft_s,
        rewind_s=rewind_s,
    )
    many = choose(
        [bet],
        num_tokens=num_sequences,
        num_rows=num_sequences,
        verify_s=verify_s,
        draft_s=draft_s,
        rewind_s=rewind_s,
    )
    assert prices.choose([bet]).speed == pytest.approx(many.speed)


@settings(max_examples=60)
@given(st.lists(chances, min_size=1, max_size=3), costs, st.floats(0.0, 2.0))
def test_each_draft_pays_for_its_copy_of_the_state(
    chains: list[list[float]], verify_s: Seconds, rewind_s: float
) -> None:
    bets = [Bet("free", survival) for survival in chains]
    count = len(bets)
    choice = choose(bets, num_tokens=count, num_rows=count, verify_s=verify_s, draft_s={}, rewind_s=rewind_s)
    num_drafting = sum(depth > 0 for depth in choice.num_draft_tokens)
    rows = count + sum(choice.num_draft_tokens)
    assert choice.seconds == pytest.approx(verify_s[rows] + rewind_s * num_drafting)
    assert choice.speed >= count / verify_s[count]
    if count == 1:
        fixed = [verify_s[1], *(seconds + rewind_s for seconds in verify_s[2:])]
        best = best_by_trying(bets, 1, 1, np.asarray([0.0, *fixed]), {})
        assert is_the_best_that_is_worth_it(choice.speed, best, 1 / verify_s[1])


def test_a_step_is_seen_through() -> None:
    """The third row costs more than the fourth: D = 2 never, D = 3 at once."""
    verify_s = Machine(MACHINES["q4_0"]).cost_model().verify_s(0)
    depths = set()
    for rate in np.linspace(0.05, 0.99, 40):
        bet = Bet("free", chain(rate, 16))
        depths |= set(choose([bet], num_tokens=1, num_rows=1, verify_s=verify_s, draft_s={}).num_draft_tokens)
    assert 2 not in depths
    assert {0, 3} <= depths


def test_rows_go_to_the_sequences_that_make_the_most_of_them() -> None:
    verify_s = Machine(MACHINES["q4_1"]).cost_model().verify_s(0)
    bets = [Bet("free", chain(rate, 16)) for rate in (0.98, 0.05, 0.6, 0.98)]
    choice = choose(bets, num_tokens=4, num_rows=4, verify_s=verify_s, draft_s={})
    first, second, third, fourth = choice.num_draft_tokens
    assert first == fourth > third >= second == 0


def test_an_expensive_drafter_of_one_does_not_stand_in_the_way_of_a_free_one() -> None:
    verify_s = np.asarray([0.0, *np.linspace(1.0, 2.0, 40)])
    bets = [Bet("draft", [0.9, 0.1]), Bet("free", chain(0.85, 8))]
    draft_s = {"draft": np.asarray([0.0, *np.full(16, 9.0)])}
    choice = choose(bets, num_tokens=2, num_rows=2, verify_s=verify_s, draft_s=draft_s)
    assert choice.num_draft_tokens[0] == 0
    assert choice.num_draft_tokens[1] > 3


def test_there_is_no_choice_without_room_or_bets() -> None:
    verify_s = np.asarray([0.0, 1.0])
    for bets in ([], [Bet("free", [1.0] * 4)]):
        choice = choose(bets, num_tokens=1, num_rows=1, verify_s=verify_s, draft_s={})
        assert choice.num_draft_tokens == (0,) * len(bets)
        assert choice.speed == 1.0


@pytest.mark.parametrize(("speed", "depth"), [(1.02, 0), (1.05, 1)])
def test_a_draft_that_costs_nothing_to_make_must_promise_more_than_to_be_even(speed: float, depth: int) -> None:
    """Of many D and drafters the best is in part the one that is overrated most; those that take time are paused."""
    verify_s = np.array([0.0, 1.0, 1.5])
    chance = 1.5 * speed - 1.0
    free = choose([Bet("free", [chance])], num_tokens=1, num_rows=1, verify_s=verify_s, draft_s={})
    assert free.num_draft_tokens == (depth,)
    assert not pays(1.02, 1.0, takes_time=False)
    assert pays(1.02, 1.0, takes_time=True)
    draft_s = {"draft": np.array([0.0, 1e-6])}
    costly = choose([Bet("draft", [chance])], num_tokens=1, num_rows=1, verify_s=verify_s, draft_s=draft_s)
    assert costly.num_draft_tokens == (1,)
