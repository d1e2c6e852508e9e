"""A drafter that goes and comes back in the middle of an answer: the text stays, the memory is given back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import psutil
import pytest

from homespec.engine.build import build_drafter
from homespec.errors import DrafterError
from homespec.frames import Admit, Generate, Readmit, ReloadDrafter, SetDrafter, Withdraw
from homespec.status import DraftState
from homespec.units import MIB
from tests.kits import engines
from tests.kits.engines import Driver, ask
from tests.kits.models import Models

pytestmark = pytest.mark.real

REASON = "withdrawn: host has 150.0 MiB free, under the low mark of 200.0 MiB"


@pytest.fixture
def driver(models: Models) -> Iterator[Driver]:
    with engines.running(models.random, draft=models.random, threads=1) as driver:
        yield driver


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("steps", [1, 5])
def test_the_text_is_the_same_when_the_drafter_goes_and_comes_back(
    driver: Driver, temperature: float, steps: int
) -> None:
    def request(mode: str) -> Generate:
        return ask("a b c", mode=mode, max_tokens=60, temperature=temperature, partition=f"{mode}{steps}")

    [plain] = driver.run(request("off"))
    sequence = driver.submit(request("auto"))
    for _ in range(steps):
        driver.scheduler.step()
    drafted = sequence.stats.num_draft_tokens
    driver.scheduler.obey(Withdraw(REASON))
    assert driver.drafter_status().state is DraftState.OFF
    assert driver.drafter_status().reason == REASON
    assert driver.roster.memory.total_bytes == 0
    for _ in range(steps):
        driver.scheduler.step()
    driver.scheduler.obey(Readmit())
    assert driver.drafter_status().state is DraftState.LOADING
    driver.load_drafter()
    driver.drain()
    answer = driver.answer(sequence)
    assert answer.token_ids == plain.token_ids
    assert sequence.stats.num_draft_tokens > drafted  # it was at work again


def test_a_drafter_that_did_not_fit_comes_in_the_middle_of_an_answer(models: Models) -> None:
    with engines.running(models.random, draft=models.random, threads=1, refused={"draft": "does not fit"}) as driver:
        [plain] = driver.run(ask("a b c", mode="off", max_tokens=60))
        sequence = driver.submit(ask("a b c", mode="draft", max_tokens=60, partition="other"))
        for _ in range(5):
            driver.scheduler.step()
        assert sequence.stats.num_draft_tokens == driver.load_requests == 0
        driver.scheduler.obey(Admit(None, None, None))
        assert driver.load_requests == 1
        driver.load_drafter()
        driver.drain()
        assert driver.answer(sequence).token_ids == plain.token_ids
        assert sequence.stats.num_draft_tokens > 0


def test_a_reload_in_the_middle_of_an_answer_changes_nothing_but_the_drafter(driver: Driver) -> None:
    [plain] = driver.run(ask("a b c", max_tokens=60, partition="plain"))
    before = driver.roster.drafters()
    sequence = driver.submit(ask("a b c", mode="auto", max_tokens=60, partition="drafted"))
    for _ in range(5):
        driver.scheduler.step()
    loads = driver.load_requests
    driver.scheduler.obey(ReloadDrafter())
    assert driver.drafter_status().state is DraftState.LOADING
    assert driver.load_requests == loads + 1
    driver.scheduler.step()
    driver.load_drafter()
    driver.drain()
    assert driver.answer(sequence).token_ids == plain.token_ids
    assert {id(drafter) for drafter in driver.roster.drafters()} != {id(drafter) for drafter in before}


def test_a_reload_does_not_overrule_what_keeps_the_drafter_out(driver: Driver) -> None:
    driver.scheduler.obey(Withdraw(REASON))
    driver.scheduler.obey(ReloadDrafter())
    assert (driver.drafter_status().state, driver.drafter_status().reason) == (DraftState.OFF, REASON)
    driver.scheduler.obey(Readmit())
    driver.load_drafter()
    driver.scheduler.obey(SetDrafter("off"))
    driver.scheduler.obey(ReloadDrafter())
    assert driver.drafter_status().state is DraftState.OFF
    assert "'off'" in driver.drafter_status().reason


def test_a_reload_gives_a_drafter_that_broke_another_try(driver: Driver) -> None:
    driver.roster.failed("draft", "broke: on purpose")
    driver.scheduler.obey(ReloadDrafter())
    assert driver.drafter_status().state is DraftState.LOADING


def test_a_request_that_names_the_drafter_is_told_why_it_is_out(driver: Driver) -> None:
    driver.scheduler.obey(Withdraw(REASON))
    [answer] = driver.run(ask("abc", mode="draft", max_tokens=4))
    assert answer.speculation.state == "off"
    assert REASON in answer.speculation.reason
    assert REASON in driver.drafter_status().reason


def test_an_engine_that_starts_under_pressure_does_not_load_it(models: Models) -> None:
    with engines.running(models.random, draft=models.random, withdrawn=REASON) as driver:
        assert driver.load_requests == 0
        assert driver.drafter_status().reason == REASON
        driver.scheduler.obey(Readmit())
        assert driver.load_requests == 1


def test_a_load_that_is_not_wanted_any_more_is_given_up(driver: Driver) -> None:
    with pytest.raises(DrafterError, match="cannot be loaded"):
        build_drafter(driver.settings, driver.context, wanted=lambda: False)


def test_the_memory_of_models_is_told_by_device(driver: Driver) -> None:
    snapshot = driver.scheduler.snapshot()
    for memory in (snapshot.target_memory, snapshot.drafter_memory):
        assert memory.total_bytes > 0
        assert memory.by_device.keys() == {"CPU"}
        assert memory.on("CPU").total_bytes == memory.total_bytes
    assert snapshot.devices == ()  # this build has none


CYCLES = 60
"""Enough for a slope: a leak of one context of this size would be ten times the limit."""
LEAK_LIMIT_BYTES = 8 * MIB


def resident() -> int:
    gc.collect()
    return int(psutil.Process().memory_info().rss)


def test_loading_and_unloading_leaks_nothing(models: Models) -> None:
    with engines.running(models.random, draft=models.random, threads=1) as driver:

        def cycle() -> None:
            driver.scheduler.obey(Withdraw(REASON))
            driver.scheduler.obey(Readmit())
            loader = threading.Thread(target=driver.load_drafter)  # as in the engine, a thread for each load
            loader.start()
            loader.join()
            driver.run(ask("abc", mode="draft", max_tokens=4))
            driver.frames.clear()

        for _ in range(10):
            cycle()
        before = resident()
        for _ in range(CYCLES):
            cycle()
        assert resident() - before <= LEAK_LIMIT_BYTES
