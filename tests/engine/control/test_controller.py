"""What the controller says, and what it may not do."""

from __future__ import annotations

import re

import numpy as np
import pytest

from homespec.engine.control.controller import Controller
from homespec.engine.control.cost import CostModel
from homespec.engine.control.decision import (
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
from homespec.engine.control.experience import Experience
from homespec.engine.control.pause import LONGEST_WAIT
from tests.engine.control.simulator import CEILING, F16, Q4_0, Q4_1, Machine


def free(length: int = CEILING, *, name: str = "ngram", confidence: float | None = None) -> Offer:
    return Offer(name, length, [1] * length, [confidence] * length)


def play(
    controller: Controller, machine: Machine, offers: list[Offer], kept: int | None, *, rounds: int = 1
) -> Decision:
    """Rounds of one sequence in which `kept` draft tokens at most are right; the last decision."""
    decision = Decision()
    for now in range(rounds):
        decision = controller.plan([Candidate("s", now, offers)]).get("s", Decision())
        depth = decision.num_draft_tokens
        taken = depth if kept is None else min(kept, depth)
        text = [1] * taken + [1 if kept is None else 2]
        rows = controller.rows_to_decode(1 + depth)
        cost = machine.draft_token.get(decision.drafter or "", 0.0) * depth
        times = RoundTimes(rows, machine.verify(rows), {decision.drafter: cost} if cost and decision.drafter else {})
        controller.observe(times, [Outcome("s", text, decision.drafter, depth, taken, [None] * depth)])
    return decision


def test_a_bet_is_told_with_its_numbers() -> None:
    machine = Machine(F16)
    decision = play(Controller(machine.cost_model()), machine, [free()], None, rounds=30)
    found = re.fullmatch(r"ngram D=(\d+): expected ([\d.]+) tokens for ([\d.]+) T\(1\)", decision.text)
    assert found, decision.text
    depth, tokens, cost = (float(each) for each in found.groups())
    assert depth == CEILING
    assert 8 < tokens <= 17
    assert cost == pytest.approx(machine.verify(17), rel=0.1)


def test_a_declined_bet_is_told_with_its_numbers() -> None:
    machine = Machine(Q4_1)
    decision = play(Controller(machine.cost_model()), machine, [free()], 0, rounds=30)
    assert decision.reason == DOES_NOT_PAY
    found = re.fullmatch(r"off: draft would cost ([\d.]+) T\(1\) for ([\d.]+) tokens", decision.text)
    assert found, decision.text
    assert float(found[1]) > float(found[2])


@pytest.mark.parametrize("depth", [0, 2])
def test_an_answer_may_end_in_a_round_without_a_token(depth: int) -> None:
    machine = Machine(Q4_1)
    controller = Controller(machine.cost_model())
    controller.plan([Candidate("s", 0, [free()])])
    drafter = "ngram" if depth else None
    controller.observe(RoundTimes(1 + depth, 1.0), [Outcome("s", [], drafter, depth, 0, [None] * depth)])
    assert play(controller, machine, [free()], None, rounds=3).text


def test_what_a_text_may_still_lose_is_told() -> None:
    machine = Machine({1: 1.0, 2: 4.0, 8: 9.0, 16: 20.0})
    decision = play(Controller(machine.cost_model()), machine, [free()], None)
    assert decision.reason == DOES_NOT_PAY
    assert re.fullmatch(r"off: drafts may lose no more than 1\.5\d T\(1\) on this text by now", decision.text)


def test_a_paused_drafter_is_told_with_its_numbers_and_when_it_is_tried_again() -> None:
    machine = Machine(Q4_1, {"draft": 0.5})
    controller = Controller(machine.cost_model())
    decision = play(controller, machine, [Offer("draft", CEILING)], 0, rounds=200)
    assert decision.reason == PAUSED
    [reason] = controller.paused().values()
    pattern = r"paused: draft would cost [\d.]+ T\(1\) for [\d.]+ tokens; tried again in \d+ rounds"
    assert re.fullmatch(pattern, reason), reason


def test_a_drafter_is_hopeless_when_it_has_been_paused_for_thousands_of_rounds_on_end() -> None:
    machine = Machine(Q4_1, {"draft": 0.5})
    controller = Controller(machine.cost_model())
    play(controller, machine, [Offer("draft", CEILING)], 0, rounds=LONGEST_WAIT - 100)
    assert not controller.hopeless()
    controller.forget("s")
    play(controller, machine, [Offer("draft", CEILING)], 0, rounds=400)
    [(name, reason)] = controller.hopeless().items()
    assert name == "draft"
    assert re.fullmatch(r"draft would cost [\d.]+ T\(1\) for [\d.]+ tokens", reason), reason
    controller.forgive("draft")
    assert not controller.hopeless()
    assert not controller.paused()


def test_a_drafter_that_pays_now_and_then_is_not_hopeless() -> None:
    machine = Machine(F16, {"draft": 0.05})
    controller = Controller(machine.cost_model())
    for _ in range(12):
        play(controller, machine, [Offer("draft", CEILING)], 0, rounds=300)
        controller.forget("s")
        play(controller, machine, [Offer("draft", CEILING)], None, rounds=150)
        controller.forget("s")
    assert not controller.hopeless()


def test_nor_is_one_that_could_not_be_tried() -> None:
    """A free drafter has the text to itself all the time."""
    machine = Machine(Q4_1, {"draft": 0.5})
    controller = Controller(machine.cost_model())
    play(controller, machine, [Offer("draft", CEILING)], 0, rounds=8)
    assert "draft" in controller.paused()
    controller.forget("s")
    play(
        controller,
        machine,
        [free(name="suffix", confidence=0.99), Offer("draft", CEILING)],
        None,
        rounds=LONGEST_WAIT + 9,
    )
    assert not controller.hopeless()


def test_what_a_constraint_forces_is_certain() -> None:
    machine = Machine(Q4_1)
    controller = Controller(machine.cost_model())
    decision = play(controller, machine, [free(8, name="grammar")], None)
    assert (decision.drafter, decision.num_draft_tokens) == ("grammar", 8)
    assert decision.expected_tokens == 9


def test_confidence_decides_before_anything_was_seen() -> None:
    controller = Controller(Machine(F16).cost_model())
    sure = controller.plan([Candidate("a", 0, [free(8, confidence=0.97)])])["a"]
    unsure = controller.plan([Candidate("b", 0, [free(8, confidence=0.15)])])["b"]
    assert sure.num_draft_tokens >= 3
    assert unsure.num_draft_tokens == 0


def test_rows_that_a_request_has_fixed_are_counted() -> None:
    """With three rows spoken for, the fourth is cheaper than nothing; the fifth is not."""
    controller = Controller(Machine(Q4_0).cost_model())
    decisions = controller.plan([Candidate("pinned", 0, num_fixed=1), Candidate("s", 0, [free(confidence=0.5)])])
    assert decisions["s"].num_draft_tokens == 1
    assert "pinned" not in decisions


def test_beside_rows_that_a_request_has_fixed_no_round_is_given_away_to_measure_the_plain_speed() -> None:
    """A round in which others draft anyway shows nothing of it, however often it is tried."""
    machine = Machine(F16)
    controller = Controller(machine.cost_model())
    reasons = []
    for now in range(300):
        decision = controller.plan([Candidate("pinned", now, num_fixed=4), Candidate("s", now, [free()])])["s"]
        depth = decision.num_draft_tokens
        reasons.append(decision.reason)
        pinned = Outcome("pinned", [1] * 5, "draft", 4, 4, [None] * 4)
        outcome = Outcome("s", [1] * (depth + 1), decision.drafter, depth, depth, [None] * depth)
        controller.observe(RoundTimes(6 + depth, machine.verify(6 + depth)), [pinned, outcome])
    assert PLAIN_MEASURED not in reasons
    assert decision.num_draft_tokens > 4


def test_what_requests_have_fixed_is_no_fault_of_the_drafter() -> None:
    """It was not asked whether that would pay, and nobody else has to do without it."""
    machine = Machine(Q4_1)
    controller = Controller(machine.cost_model())
    for now in range(100):
        controller.plan([Candidate("pinned", now, num_fixed=16)])
        outcome = Outcome("pinned", [2], "suffix", 16, 0, [None] * 16)
        controller.observe(RoundTimes(17, machine.verify(17)), [outcome])
    assert not controller.paused()
    assert controller.tally.measured_speedup is None


def test_nothing_is_drafted_before_a_pass_has_been_timed() -> None:
    machine = Machine(F16)
    controller = Controller(CostModel(None, max_rows=20))
    assert play(controller, machine, [free()], None, rounds=3).reason == NOT_MEASURED
    assert play(controller, machine, [free()], None, rounds=20).num_draft_tokens > 0


def test_a_full_target_gets_no_drafts() -> None:
    machine = Machine(F16, max_rows=4)
    controller = Controller(machine.cost_model())
    decisions = controller.plan([Candidate(f"s{index}", 0, [free(confidence=0.99)]) for index in range(4)])
    assert {decision.num_draft_tokens for decision in decisions.values()} == {0}


def test_the_ceiling_of_a_request_holds() -> None:
    machine = Machine(F16)
    controller = Controller(machine.cost_model())
    for limit in (1, 2, 5):
        assert play(controller, machine, [free(limit)], None, rounds=20).num_draft_tokens <= limit


def test_a_model_drafter_stops_where_its_next_token_would_not_pay() -> None:
    """Its confidence is what it says: of tokens that it is 95 % sure of, one in twenty is refused."""
    machine = Machine(F16, {"draft": 0.05})
    controller = Controller(machine.cost_model())
    random = np.random.default_rng(0)
    for now in range(200):
        decision = controller.plan([Candidate("s", now, [Offer("draft", CEILING)])])["s"]
        depth = decision.num_draft_tokens
        taken = min(int(random.geometric(0.05)) - 1, depth)
        outcome = Outcome("s", [1] * (taken + 1), decision.drafter, depth, taken, [0.95] * depth)
        controller.observe(RoundTimes(1 + depth, machine.verify(1 + depth), {"draft": 0.05 * depth}), [outcome])
    decision = controller.plan([Candidate("s", 200, [Offer("draft", CEILING)])])["s"]
    assert decision.num_draft_tokens > 4
    assert decision.should_continue is not None
    assert decision.should_continue(0, 0.95)
    assert not decision.should_continue(1, 0.02)
    assert not decision.should_continue(decision.num_draft_tokens - 1, 0.99)


@pytest.mark.parametrize(("context", "is_learned"), [(8, True), (500, False)])
def test_what_a_drafter_needs_to_catch_up_is_no_cost_of_its_draft(context: int, is_learned: bool) -> None:
    """It has not followed the text while another drafted, and reads what it missed first."""
    machine = Machine(F16, {"draft": 0.05})
    controller = Controller(machine.cost_model())
    costs = []
    for now, seconds in ((0, 0.2), (context, 2.0)):
        depth = controller.plan([Candidate("s", now, [Offer("draft", 4)])])["s"].num_draft_tokens
        assert depth
        times = RoundTimes(1 + depth, machine.verify(1 + depth), {"draft": seconds})
        controller.observe(times, [Outcome("s", [1] * (depth + 1), "draft", depth, depth, [None] * depth)])
        costs.append(float(controller.cost.draft_s("draft", 1, 0.0)[4]))
    assert (costs[1] > 1.05 * costs[0]) is is_learned


def test_an_answer_that_ends_inside_its_draft_has_refused_nothing() -> None:
    experience = Experience()
    offer = Offer("draft", 8)
    before = experience.survival("s", offer)[0]
    for now in range(10):
        experience.learn(Candidate("s", now, [offer]), Outcome("s", [1], "draft", 8, 1, [None] * 8))
    assert experience.survival("s", offer)[0] > max(before, 0.8)
