"""Thread counts: chosen from timings, used for rows and batches apart, kept, and left alone where somebody set them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine import threads
from homespec.engine.kept import NUM_RUNS, Kept, context_key
from homespec.engine.threads import ThreadChoice, Timings, candidates, fastest
from homespec.frames import Measured
from tests.kits.engines import Driver, ask, running
from tests.kits.identity import same_answer
from tests.kits.models import Models


@given(st.integers(1, 64), st.integers(1, 64))
def test_candidates_are_counts_up_to_the_cores_and_begin_with_the_usual_one(usual: int, usable: int) -> None:
    found = candidates(usual, usable)
    assert found[0] == usual
    assert len(found) == len(set(found)) <= 4
    assert all(1 <= count <= max(usual, usable) for count in found)


def test_the_usual_count_stays_unless_another_is_clearly_faster() -> None:
    assert fastest({4: 1.0, 8: 1.06}, usual=4) == 4
    assert fastest({4: 1.0, 8: 0.97, 3: 0.93}, usual=4) == 3


times = st.fixed_dictionaries({1: st.floats(1e-3, 1.0), 2: st.floats(1e-3, 1.0)})


@given(times, times, times)
def test_of_several_starts_the_least_times_count(
    first: dict[int, float], second: dict[int, float], third: dict[int, float]
) -> None:
    all_of_them = Timings(third, third).with_earlier(Timings(second, second).with_earlier(Timings(first, first)))
    assert all_of_them.single == {count: min(first[count], second[count], third[count]) for count in (1, 2)}
    assert all_of_them.batch == all_of_them.single
    assert all_of_them.num_runs == 3


@pytest.mark.real
class TestInAnEngine:
    """Rows are fastest with one thread and batches with two, whatever the clock says."""

    @pytest.fixture(autouse=True)
    def _two_cores(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        monkeypatch.setattr(threads, "usable_cores", lambda: 2)
        picks = itertools.cycle([1, 2])
        monkeypatch.setattr(threads, "fastest", lambda *_: next(picks))

    def test_the_choice_is_used_kept_and_changes_no_answer(self, models: Models, tmp_path: Path) -> None:
        kept = Kept("threads", tmp_path)
        with running(models.random, n_ctx=512, slots=1, threads=2) as driver:
            context = driver.context
            [before] = driver.run(ask("one two", max_tokens=40, partition="a"))
            choice = ThreadChoice(context, is_free=True, kept=kept)
            assert choice.is_pending
            assert drain(choice, driver) == (1, 2)
            assert driver.kv_length(context.params.n_seq_max - 1) == 0
            [after] = driver.run(ask("one two", max_tokens=40, partition="b"))
            assert same_answer(before, after)
            context.set_threads(2, 2)
            context.params = replace(context.params, n_threads_batch=None)
            again = ThreadChoice(context, is_free=True, kept=kept)
            assert again.is_known
            assert (context.params.n_threads, context.params.n_threads_batch) == (1, 2)

    def test_a_few_starts_measure_and_none_changes_the_counts_that_it_began_with(
        self, models: Models, tmp_path: Path
    ) -> None:
        kept = Kept("threads", tmp_path)
        with running(models.markov, n_ctx=512, slots=1, threads=2) as driver:
            context = driver.context
            started, key = context.params, context_key(context)
            for num_runs in range(1, NUM_RUNS + 1):
                context.params = started
                choice = ThreadChoice(context, is_free=True, kept=kept)
                assert choice.is_pending
                before = (context.params.n_threads, context.params.n_threads_batch)
                after = drain(choice, driver)
                assert num_runs == 1 or after == before
                assert kept.get(key)["num_runs"] == num_runs
            context.params = started
            assert not ThreadChoice(context, is_free=True, kept=kept).is_pending

    def test_a_request_between_two_steps_has_the_counts_from_before(self, models: Models, tmp_path: Path) -> None:
        with running(models.markov, n_ctx=512, slots=1, threads=2) as driver:
            choice = ThreadChoice(driver.context, is_free=True, kept=Kept("threads", tmp_path))
            for _ in choice.measure(driver.context.params.n_seq_max - 1):
                params = driver.context.params
                assert (params.n_threads, params.n_threads_batch or params.n_threads) == (2, 2)

    def test_one_that_is_given_up_leaves_threads_and_cache_as_they_were(self, models: Models, tmp_path: Path) -> None:
        with running(models.markov, n_ctx=512, slots=1, threads=2) as driver:
            choice = ThreadChoice(driver.context, is_free=True, kept=Kept("threads", tmp_path))
            steps = choice.measure(driver.context.params.n_seq_max - 1)
            for _ in range(3):
                next(steps)
            steps.close()  # type: ignore[attr-defined]
            assert choice.is_pending
            assert (driver.context.params.n_threads, driver.context.params.n_threads_batch) == (2, 2)
            assert driver.kv_length(driver.context.params.n_seq_max - 1) == 0

    def test_what_somebody_has_set_stays(self, models: Models) -> None:
        with running(models.markov, n_ctx=512, slots=1, threads=2) as driver:
            assert not ThreadChoice(driver.context, is_free=False).is_pending
            assert driver.scheduler.exactness.measure is None

    def test_what_is_kept_of_another_machine_is_measured_again(self, models: Models, tmp_path: Path) -> None:
        with running(models.markov, n_ctx=512, slots=1, threads=2) as driver:
            one = {"1": 0.1, "2": 0.2}
            for nonsense in ([1, 2], "2", {"1": 2}, {"single": one}, {"single": one, "batch": one | {"64": 0.3}}):
                kept = Kept("threads", tmp_path)
                kept.put(context_key(driver.context), nonsense)
                assert ThreadChoice(driver.context, is_free=True, kept=kept).is_pending

    @pytest.mark.parametrize("exactness", ["auto", "strict", "fast"])
    def test_they_are_chosen_before_logits_are_compared_and_costs_measured(
        self, models: Models, exactness: str
    ) -> None:
        with running(models.markov, n_ctx=1024, slots=1, threads=None, exactness=exactness, controller=True) as driver:
            scheduler = driver.scheduler
            while scheduler.exactness.measure is not None:
                scheduler.idle_work.step()
            assert (driver.context.params.n_threads, driver.context.params.n_threads_batch) == (1, 2)
            assert scheduler.exactness.verdict.strict == (exactness != "fast")
            status = scheduler.snapshot().speculation.controller
            assert status is not None
            assert status.threads == (1, 2)
            told = [frame.threads for frame in driver.frames if isinstance(frame, Measured)]
            assert told == ([] if exactness == "strict" else [1])
        with running(models.markov, n_ctx=1024, slots=1, threads=None, exactness=exactness, controller=True) as driver:
            # What was found then is known at once, while times are taken again.
            assert driver.scheduler.exactness.verdict.strict == (exactness != "fast")
            assert driver.context.params.n_threads_batch == 2


def drain(choice: ThreadChoice, driver: Driver) -> tuple[int, int | None]:
    """The counts for a row and for batches that it comes to."""
    for _ in choice.measure(driver.context.params.n_seq_max - 1):
        pass
    return driver.context.params.n_threads, driver.context.params.n_threads_batch
