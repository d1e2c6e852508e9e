"""Targets with a recurrent state: what keeping it costs is measured, is part of the bet, and is said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from homespec.engine.control.calibration import Calibration
from homespec.engine.control.cost import CostModel, CostTable
from homespec.engine.drafters.drafter import DraftRequest
from tests.kits.drafters import ScriptedDrafter
from tests.kits.engines import SCRIPTED, Driver, ask, running
from tests.kits.identity import same_answer
from tests.kits.models import Models

pytestmark = pytest.mark.real

PROMPT = b"A prompt."
ROWS, CHEAP = (1, 2, 16), ((1.0, 1.05, 1.2),)


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def driver(models: Models) -> Iterator[Driver]:
    with running(models.recurrent, draft=SCRIPTED, n_ctx=512, controller=True, max_draft_tokens=16) as engine:
        yield engine


def cost_of(driver: Driver) -> CostModel:
    assert driver.scheduler.costs is not None
    return driver.scheduler.costs.controller.cost


def request(**fields: Any) -> Any:
    return ask(PROMPT, max_tokens=60, ignore_eos=True, **fields)


@pytest.mark.parametrize("kind", ["recurrent", "hybrid", "hybrid without snapshots"])
def test_costs_are_measured_and_leave_no_trace(models: Models, kind: str) -> None:
    mode = "off" if kind.endswith("without snapshots") else "auto"
    path = getattr(models, kind.partition(" ")[0])
    with running(path, n_ctx=512, slots=1, drafter_mode=mode) as driver:
        [before] = driver.run(request())
        probe = driver.context.params.n_seq_max - 1
        calibration = Calibration(driver.context, probe, budget_s=0.0)
        for _ in range(3):
            calibration.step()
        assert calibration.interrupt()
        while not calibration.is_done:
            calibration.step()
        assert driver.kv_length(probe) == 0
        [after] = driver.run(request(partition="other"))
    table = calibration.table()
    assert table is not None
    assert (table.rewind_s > 0) == (kind != "hybrid")
    assert same_answer(before, after)


def test_a_copy_that_costs_more_than_it_gains_is_the_reason(driver: Driver) -> None:
    cost = cost_of(driver)
    cost.use(CostTable(ROWS, (0,), CHEAP, rewind_s=30.0))
    cost.observe_verify = lambda *_: None  # type: ignore[method-assign]
    cost.set_draft_s("draft", {1: 0.01, 16: 0.1})
    driver.use_drafter(ScriptedDrafter(lambda _: [1] * 16))
    sequence = driver.submit(request(mode="draft"))
    for _ in range(8):
        driver.scheduler.step()
    [shown] = driver.scheduler.snapshot().requests
    pattern = (
        r"off: draft would cost 3\d\.\d\d T\(1\), 30\.00 of it for the copy of the recurrent state \(30000\.0 ms\), "
        r"for [\d.]+ tokens"
    )
    assert re.fullmatch(pattern, shown.decision or ""), shown.decision
    status = driver.scheduler.snapshot().speculation.controller
    assert status is not None
    assert status.state_copy_ms == 30_000
    driver.drain()
    assert sequence.stats.num_drafts == 0


def test_what_copies_really_take_is_learned_from_the_rounds(driver: Driver) -> None:
    [plain] = driver.run(request())
    truth = [*PROMPT, *plain.token_ids]

    def half_right(draft: DraftRequest) -> list[int]:
        start = len(draft.token_ids)
        return [*truth[start : start + 1], *(0 for _ in range(draft.max_tokens - 1))]

    cost = cost_of(driver)
    cost.use(CostTable(ROWS, (0,), CHEAP))
    assert cost.rewind_s == 0
    driver.use_drafter(ScriptedDrafter(half_right))
    [drafted] = driver.run(request(mode="draft", partition="other"))
    assert drafted.speculation.drafted > 0
    assert same_answer(plain, drafted)
    assert cost.rewind_s > 0
