from __future__ import annotations

import pytest

from homespec.frames import EngineSettings
from homespec.status import StartCause
from homespec.supervision.course import Course
from homespec.supervision.plan import Plan
from homespec.supervision.requests import Requests
from tests.kits.limits import limits

A, B, C = (Plan(EngineSettings(f"{name}.gguf", name)) for name in "abc")


def a_course() -> Course:
    return Course(A, Requests(limits(), slots=1))


async def test_a_plan_that_loads_is_kept() -> None:
    course = a_course()
    outcome = course.replace(B)
    assert (course.plan, course.home, course.cause) == (B, B, StartCause.RELOAD)
    course.arrived()
    assert await outcome is None
    assert not course.fall_back("died later")


async def test_one_that_does_not_load_makes_room_for_the_one_before() -> None:
    course = a_course()
    outcome = course.replace(B)
    assert course.fall_back("no such file")
    assert (course.plan, course.home) == (A, A)
    assert await outcome == "no such file"
    assert not course.fall_back("again")


async def test_one_that_is_overtaken_is_told_and_the_first_comes_back() -> None:
    course = a_course()
    first, second = course.replace(B), course.replace(C)
    assert "meanwhile" in (await first or "")
    assert course.fall_back("no such file")
    assert course.plan is A
    assert await second == "no such file"


@pytest.mark.parametrize(
    ("plan", "cause", "is_dispensable"),
    [
        (A, StartCause.BOOT, False),
        (A, StartCause.DEATH, False),
        (A, StartCause.SWAP, True),  # the others are still served
        (A, StartCause.DEMAND, True),
        (B, StartCause.SWAP, True),
        (B, StartCause.DEATH, True),  # it is not the one
    ],
)
def test_what_the_daemon_is_for_cannot_be_done_without(plan: Plan, cause: StartCause, is_dispensable: bool) -> None:
    course = a_course()
    course.turn_to(plan, cause)
    assert course.is_dispensable is is_dispensable


def test_the_switch_holds_for_every_model_until_the_configuration_changes() -> None:
    course = a_course()
    course.switch = "off"
    course.turn_to(B, StartCause.SWAP)
    assert B.settings.drafter_mode == "off"
    course.exchange(C)
    assert C.settings.drafter_mode == "auto"
