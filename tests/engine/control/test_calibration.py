"""Costs are measured in short steps, can be interrupted, and are kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from homespec.engine.control.calibration import SHORT, Calibration
from homespec.engine.costs import Costs
from homespec.engine.kept import Kept, context_key
from tests.kits.engines import Driver, ask, running
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def engine(models: Models) -> Iterator[Driver]:
    with running(models.markov, draft=models.markov_drafter, n_ctx=1024, slots=1) as driver:
        yield driver


def calibrated(calibration: Calibration) -> Calibration:
    while not calibration.is_done:
        calibration.step()
    return calibration


def test_it_times_every_row_count_in_two_contexts_and_leaves_the_cache_empty(engine: Driver) -> None:
    probe = engine.context.params.n_seq_max - 1
    table = calibrated(Calibration(engine.context, probe, budget_s=600)).table()
    assert table is not None
    assert table.rows[0] == 1
    assert table.rows[-1] == engine.context.params.n_outputs_max == 17
    assert table.contexts == (SHORT, 512)
    assert all(seconds > 0 for line in table.seconds for seconds in line)
    assert all(long >= short for short, long in zip(*table.seconds, strict=True))
    assert engine.kv_length(probe) == 0


def test_an_interruption_frees_the_cache_and_loses_no_sample(engine: Driver) -> None:
    probe = engine.context.params.n_seq_max - 1
    calibration = Calibration(engine.context, probe, budget_s=600)
    for _ in range(12):
        calibration.step()
    assert engine.kv_length(probe) > 0
    before = calibration.table()
    assert calibration.interrupt()
    assert engine.kv_length(probe) == 0
    assert calibration.table() == before
    assert not calibration.interrupt()
    table = calibrated(calibration).table()
    assert table is not None
    assert len(table.contexts) == 2


def test_without_time_only_the_most_telling_rows_are_measured(engine: Driver) -> None:
    table = calibrated(Calibration(engine.context, 0, budget_s=0.0)).table()
    assert table is not None
    assert table.rows == (1, 2)
    assert table.contexts == (SHORT,)


def test_the_costs_of_an_earlier_run_are_used(engine: Driver, tmp_path: Path) -> None:
    first = Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path))
    assert first.source == "unknown"
    while first.is_pending:
        first.step()
    assert first.source == "measured"
    second = Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path))
    assert second.source == "rechecking"
    assert second.controller.cost.verify_s(0) == pytest.approx(first.controller.cost.verify_s(0))
    earlier = second.controller.cost.table
    while second.is_pending:
        second.step()
    later = second.controller.cost.table
    assert earlier is not None
    assert later is not None
    assert all(new <= old for new, old in zip(later.seconds[0], earlier.seconds[0], strict=True))
    assert later.num_runs == 2
    third = Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path))
    while third.is_pending:
        third.step()
    last = Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path))
    assert last.source == "kept"
    assert last.controller.cost.table == third.controller.cost.table


@pytest.mark.parametrize(
    "kept",
    [
        1,
        {},
        {"rows": [1, 2], "contexts": [32], "seconds": [[0.0, 0.0]]},
        {"rows": [1, 4, 2], "contexts": [32], "seconds": [[1.0, 2.0, 3.0]]},
        {"rows": [1, 2], "contexts": [32], "seconds": [[1.0, float("nan")]]},
        {"rows": [1, 2], "contexts": [32, 512], "seconds": [[1.0, 2.0]]},
    ],
)
def test_kept_costs_that_are_none_are_measured_anew(engine: Driver, tmp_path: Path, kept: object) -> None:
    (tmp_path / "costs.json").write_text(json.dumps({context_key(engine.context): kept}))
    costs = Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path))
    assert costs.source == "unknown"
    assert costs.is_pending


def test_costs_of_fewer_threads_are_used_and_not_kept(engine: Driver, tmp_path: Path) -> None:
    """Other work took one away for a moment: the next engine measures anew, and so does what stands for all threads."""
    costs = Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path))
    engine.context.crew.size = 1
    costs.step()
    engine.context.crew.size = None
    while costs.is_pending:
        costs.step()
    assert costs.source == "measured"
    assert Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path)).source == "unknown"


def test_a_model_drafter_is_timed_as_well_and_forgets_the_probe(engine: Driver, tmp_path: Path) -> None:
    costs = Costs(engine.context, engine.roster, kept=Kept("costs", tmp_path))
    while costs.is_pending:
        costs.step()
    [drafter] = [each for each in engine.roster.drafters() if each.name == "draft"]
    assert all(seconds > 0 for seconds in costs.controller.cost.draft_s("draft", 1, 0)[1:])
    assert engine.context.params.n_seq_max - 1 not in set(drafter._cache)  # type: ignore[attr-defined]


def test_the_engine_measures_while_idle_and_a_request_comes_first(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with running(models.markov, n_ctx=512, slots=1, controller=True) as driver:
        costs = driver.scheduler.costs
        assert costs is not None
        for _ in range(12):
            costs.step()
        [answer] = driver.run(ask("hello", max_tokens=8))
        assert len(answer.token_ids) == 8
        while costs.is_pending:
            costs.step()
        assert costs.source == "measured"
