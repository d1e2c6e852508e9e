"""The engine with its controller: the same answers, and every round accounted for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from homespec.engine.control import pause
from homespec.engine.control.cost import CostTable
from homespec.engine.drafters.drafter import DraftRequest
from homespec.status import DraftState
from tests.kits.drafters import RecordingDrafter, ScriptedDrafter
from tests.kits.engines import SCRIPTED, Driver, ask, running
from tests.kits.gguf_kit import follow
from tests.kits.identity import same_answer
from tests.kits.models import LETTERS, Models

pytestmark = pytest.mark.real

START = tuple(b"hello")
CHEAP_ROWS = CostTable((1, 2, 3, 4, 8, 16), (0,), ((1.0, 1.1, 3.0, 1.2, 1.4, 1.6),))
DEAR_ROWS = CostTable((1, 2, 16), (0,), ((1.0, 2.5, 20.0),))


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Costs of earlier runs would decide about the rounds of these."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


def betting(driver: Driver, table: CostTable) -> Driver:
    """The engine believes this table, whatever the clock says."""
    assert driver.scheduler.costs is not None
    cost = driver.scheduler.costs.controller.cost
    cost.use(table)
    cost.observe_verify = lambda *_: None  # type: ignore[method-assign]
    cost.observe_draft = lambda *_: None  # type: ignore[method-assign]
    cost.set_draft_s("draft", {1: 0.05, 16: 0.8})
    return driver


@pytest.fixture
def engine(models: Models) -> Iterator[Driver]:
    with running(models.markov, draft=models.markov_drafter, n_ctx=512, controller=True, max_draft_tokens=16) as driver:
        yield driver


def counts(driver: Driver) -> dict[str, Any]:
    return driver.scheduler.snapshot().counters.skipped_drafts


@pytest.mark.parametrize("table", [CHEAP_ROWS, DEAR_ROWS])
@pytest.mark.parametrize("mode", ["auto", "draft", "ngram"])
def test_the_answer_does_not_depend_on_it(engine: Driver, models: Models, table: CostTable, mode: str) -> None:
    betting(engine, table)
    answers = engine.run(*(ask(START, mode=each, max_tokens=60) for each in ("off", mode, mode)))
    assert answers[0].token_ids == follow(models.chain, START[-1], 60)
    assert all(same_answer(answers[0], answer) for answer in answers[1:])


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_nor_does_a_sampled_one_on_a_real_text(models: Models, temperature: float) -> None:
    with running(models.random, draft=models.other_random, n_ctx=512, controller=True) as driver:
        betting(driver, CHEAP_ROWS)
        request: dict[str, Any] = {"max_tokens": 80, "temperature": temperature, "seed": 11}
        [plain], [drafted] = (driver.run(ask("one two one two", mode=mode, **request)) for mode in ("off", "auto"))
    assert same_answer(plain, drafted)


def test_rounds_without_a_draft_have_reasons_that_add_up(engine: Driver) -> None:
    betting(engine, DEAR_ROWS)
    answers = engine.run(*(ask(START, mode=mode, max_tokens=60) for mode in ("auto", "ngram", "draft")))
    drafted = sum(sum(answer.speculation.drafters.values()) for answer in answers)
    rounds = sum(answer.speculation.rounds for answer in answers)
    assert drafted + sum(counts(engine).values()) == rounds
    assert set(counts(engine)) <= {"does not pay", "paused", "no match", "near the end", "plain speed measured again"}


def test_a_drafter_that_never_pays_is_parked_between_answers_and_comes_back_when_named(
    engine: Driver, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "LONGEST_WAIT", 12)
    betting(engine, DEAR_ROWS)
    said = follow(models.chain, START[-1], 100)
    [answer] = engine.run(ask(START, mode="auto", max_tokens=100))
    assert answer.token_ids == said
    status = engine.drafter_status()
    assert status.state is DraftState.OFF
    assert re.match(r"parked: draft would cost [\d.]+ T\(1\) for [\d.]+ tokens; back when it is named", status.reason)
    assert engine.roster.memory.total_bytes == 0
    assert engine.scheduler.snapshot().speculation.order == ("grammar", "suffix", "ngram")
    [again] = engine.run(ask(START, mode="draft", max_tokens=20))
    assert again.token_ids == said[:20]
    assert engine.drafter_status().state is DraftState.LOADING
    engine.load_drafter()
    assert engine.scheduler.snapshot().speculation.order == ("grammar", "suffix", "draft", "ngram")
    [drafted] = engine.run(ask(START, mode="draft", max_draft_tokens=4, max_tokens=20))
    assert drafted.token_ids == said[:20]
    assert drafted.speculation.accepted == drafted.speculation.drafted > 0


def test_every_request_has_the_line_of_its_last_decision(engine: Driver) -> None:
    betting(engine, CHEAP_ROWS)
    sequence = engine.submit(ask(START, mode="draft", max_tokens=200))
    plain = engine.submit(ask(START, mode="off", max_tokens=200))
    for _ in range(8):
        engine.scheduler.step()
    lines = {request.id: request.decision for request in engine.scheduler.snapshot().requests}
    assert (lines[sequence.id] or "").startswith("draft D=")
    assert lines[plain.id] is None
    engine.drain()


def test_the_controller_is_in_the_status(engine: Driver) -> None:
    status = engine.scheduler.snapshot().speculation.controller
    assert status is not None
    assert (status.costs, status.plain_ms, status.row_costs) == ("unknown", None, {})
    betting(engine, CHEAP_ROWS)
    [answer] = engine.run(ask(START, mode="draft", max_tokens=60))
    status = engine.scheduler.snapshot().speculation.controller
    assert status is not None
    assert status.plain_ms == pytest.approx(1000.0)
    assert status.row_costs[8] == pytest.approx(1.4)
    assert status.draft_costs == {"draft": pytest.approx(0.05)}
    assert status.decision_us is not None
    table = status.verify_table
    assert table is not None
    assert (table.contexts, table.rows) == ((0,), (1, 2, 3, 4, 8, 16))
    assert table.ms[0] == pytest.approx((1000, 1100, 3000, 1200, 1400, 1600))
    assert status.draft_ms["draft"] == pytest.approx({1: 50, 2: 100, 4: 200, 8: 400, 16: 800})
    bins = status.reliability["draft"]
    assert sum(each.count for each in bins) >= answer.speculation.accepted > 0


def test_a_request_that_names_drafter_and_d_gets_exactly_that(engine: Driver) -> None:
    betting(engine, DEAR_ROWS)
    [answer] = engine.run(ask(START, mode="draft", max_draft_tokens=5, max_tokens=61))
    assert answer.speculation.drafted / answer.speculation.drafters["draft"] == pytest.approx(5, abs=0.1)


def test_a_limit_of_a_request_is_a_ceiling(models: Models) -> None:
    with running(models.markov, draft=SCRIPTED, n_ctx=512, controller=True, max_draft_tokens=16) as driver:
        betting(driver, CHEAP_ROWS)
        recording = RecordingDrafter(ScriptedDrafter(_right(models)))
        driver.use_drafter(recording)
        driver.run(ask(START, mode="auto", max_draft_tokens=3, max_tokens=60))
    assert recording.limits
    assert max(recording.limits) <= 3


def test_the_drafter_that_is_right_is_used_to_the_full(models: Models) -> None:
    with running(models.markov, draft=SCRIPTED, n_ctx=512, controller=True, max_draft_tokens=16) as driver:
        betting(driver, CHEAP_ROWS)
        recording = RecordingDrafter(ScriptedDrafter(_right(models)))
        driver.use_drafter(recording)
        [answer] = driver.run(ask(START, mode="draft", max_tokens=300))
    assert answer.token_ids == follow(models.chain, START[-1], 300)
    assert recording.limits[-10:-2] == [16] * 8


def test_three_rows_are_decoded_as_four_where_that_is_cheaper(models: Models) -> None:
    """The extra row belongs to nobody: the answer and the cache are what they would be without it."""
    with running(models.letters, draft=SCRIPTED, n_ctx=256, controller=True) as driver:
        betting(driver, CHEAP_ROWS)
        driver.use_drafter(ScriptedDrafter(lambda request: [_next(request), _next(request, 2)]))
        widths = []
        decode = driver.context.decode
        driver.context.decode = lambda batch: (widths.append(batch.n_tokens), decode(batch))[1]  # type: ignore[func-returns-value,method-assign]
        sequence = driver.submit(ask("a", mode="draft", max_draft_tokens=2, max_tokens=40))
        while driver.scheduler.busy:
            driver.scheduler.step()
            if not sequence.finished:
                assert sequence.slot_id is not None
                assert driver.kv_length(sequence.slot_id) == sequence.num_computed_tokens
        [plain] = driver.run(ask("a", mode="off", max_tokens=40))
    assert driver.answer(sequence).token_ids == plain.token_ids
    assert 4 in widths
    assert 3 not in widths[1:]


def _right(models: Models) -> Any:
    def script(request: DraftRequest) -> list[int]:
        return follow(models.chain, request.token_ids[-1], request.max_tokens)

    return script


def _next(request: DraftRequest, steps: int = 1) -> int:
    return LETTERS[(LETTERS.index(request.token_ids[-1]) + steps) % len(LETTERS)]
