"""Targets whose memory is not a plain list of keys: taking draft tokens back must leave no trace in any of them.

The models are random, so one token or one row of state too many or too few changes all that follows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from homespec.engine.drafters.drafter import DraftRequest
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.engine.sampling.chain import Logits
from homespec.frames import SetDrafter
from tests.kits.drafters import Script, ScriptedDrafter
from tests.kits.engines import SCRIPTED, Driver, ask, running
from tests.kits.memory_kit import WINDOW
from tests.kits.models import Models

pytestmark = pytest.mark.real

KINDS = ("sliding", "recurrent", "hybrid", "hybrid-without-snapshots")
PROMPT = b"A prompt that is longer than the window of the sliding layers."
NUM_TOKENS = 72


@pytest.fixture(params=KINDS)
def driver(request: pytest.FixtureRequest, models: Models) -> Iterator[Driver]:
    kind: str = request.param
    # A server that starts without drafting keeps no snapshots, and copies states once drafting is switched on.
    mode = "off" if kind.endswith("without-snapshots") else "auto"
    with running(_path(models, kind), draft=SCRIPTED, n_ctx=512, drafter_mode=mode) as engine:
        engine.scheduler.obey(SetDrafter("auto"))
        assert engine.context.num_snapshots == (4 if kind == "hybrid" else 0)
        yield engine
        assert engine.scheduler._slots.repair() == []


def _path(models: Models, kind: str) -> Path:
    path: Path = getattr(models, kind.partition("-")[0])
    return path


def _plain(driver: Driver, prompt: bytes = PROMPT) -> list[int]:
    driver.use_drafter(ScriptedDrafter(lambda _: []))
    [answer] = driver.run(ask(prompt, max_tokens=NUM_TOKENS, ignore_eos=True, partition="plain"))
    driver.forget_prefixes()
    return answer.token_ids


def _saying(prompt: bytes, truth: list[int], chance_of_error: float) -> Script:
    """Drafts what the target will say, but for a share of wrong tokens at places that never change."""
    rng = random.Random(3)
    full = [*prompt, *((token + 1) % 256 if rng.random() < chance_of_error else token for token in truth)]

    def script(draft: DraftRequest) -> Sequence[int]:
        start = len(draft.token_ids)
        return full[start : start + draft.max_tokens]

    return script


@pytest.mark.parametrize("chance_of_error", [0.0, 0.3, 1.0])
def test_whatever_is_rejected_the_answer_is_the_plain_one(driver: Driver, chance_of_error: float) -> None:
    plain = _plain(driver)
    driver.use_drafter(ScriptedDrafter(_saying(PROMPT, plain, chance_of_error)))
    for limit in (1, 3, 4, 7):
        [answer] = driver.run(ask(PROMPT, mode="draft", max_draft_tokens=limit, max_tokens=NUM_TOKENS, ignore_eos=True))
        assert answer.token_ids == plain
        rate = answer.speculation.accepted / answer.speculation.drafted
        assert (rate == 1.0) if not chance_of_error else (rate == 0.0) if chance_of_error == 1.0 else (0 < rate < 1)
        driver.forget_prefixes()


def test_requests_that_draft_unequal_numbers_of_tokens_share_a_round(driver: Driver) -> None:
    prompts = [b"one", b"a second one", b"the third of them", b"and a fourth"]
    plain = [_plain(driver, prompt) for prompt in prompts]
    scripts = [_saying(prompt, truth, 0.3) for prompt, truth in zip(prompts, plain, strict=True)]

    def script(draft: DraftRequest) -> Sequence[int]:
        matching = next(at for at, prompt in enumerate(prompts) if bytes(draft.token_ids[: len(prompt)]) == prompt)
        return scripts[matching](draft)

    driver.use_drafter(ScriptedDrafter(script))
    answers = driver.run(
        *(
            ask(prompt, mode="draft", max_draft_tokens=1 + at, max_tokens=NUM_TOKENS, ignore_eos=True)
            for at, prompt in enumerate(prompts)
        )
    )
    assert [answer.token_ids for answer in answers] == plain


def test_a_conversation_goes_on_from_what_is_kept(driver: Driver) -> None:
    plain = _plain(driver)
    driver.use_drafter(ScriptedDrafter(_saying(PROMPT, plain, 0.3)))
    [first] = driver.run(ask(PROMPT, mode="draft", max_tokens=NUM_TOKENS, ignore_eos=True))
    history = [*first.sequence.token_ids, *b" And then?"]
    [second] = driver.run(ask(history, max_tokens=24, ignore_eos=True))
    [fresh] = driver.run(ask(history, max_tokens=24, ignore_eos=True, partition="fresh"))
    assert second.finished.num_cached_tokens == len(first.sequence.token_ids) - 1
    assert second.token_ids == fresh.token_ids


def test_another_question_after_the_same_beginning_is_answered_as_if_it_were_the_first(driver: Driver) -> None:
    """What is kept holds more than the common beginning: a recurrent state cannot be cut there."""
    prompt, other = b"The same long beginning for all, then A", b"The same long beginning for all, then B"
    driver.run(ask(prompt, max_tokens=NUM_TOKENS, ignore_eos=True))
    [after] = driver.run(ask(other, max_tokens=24, ignore_eos=True))
    [fresh] = driver.run(ask(other, max_tokens=24, ignore_eos=True, partition="fresh"))
    assert after.token_ids == fresh.token_ids


def test_a_stop_string_that_began_in_an_earlier_round_leaves_a_slot_that_can_be_used(driver: Driver) -> None:
    plain = _plain(driver)
    [whole] = driver.run(ask(PROMPT, max_tokens=NUM_TOKENS, ignore_eos=True))
    stop = whole.text[10:14]
    driver.use_drafter(ScriptedDrafter(_saying(PROMPT, plain, 1.0)))
    [stopped] = driver.run(
        ask(PROMPT, mode="draft", max_draft_tokens=3, max_tokens=NUM_TOKENS, ignore_eos=True, stop=(stop,))
    )
    assert stopped.text == whole.text[: whole.text.index(stop)]
    [again] = driver.run(ask(stopped.sequence.token_ids, max_tokens=24, ignore_eos=True))
    [fresh] = driver.run(ask(stopped.sequence.token_ids, max_tokens=24, ignore_eos=True, partition="fresh"))
    assert again.token_ids == fresh.token_ids


def test_cancelled_and_preempted_answers_leave_nothing_behind(driver: Driver) -> None:
    plain = _plain(driver)
    driver.use_drafter(ScriptedDrafter(_saying(PROMPT, plain, 0.3)))
    sequence = driver.submit(ask(PROMPT, mode="draft", max_tokens=NUM_TOKENS, ignore_eos=True))
    for _ in range(5):
        driver.scheduler.step()
    driver.scheduler.cancel(sequence.id)
    # Together they need more than the context: the younger ones are taken out and computed again.
    requests = [ask(PROMPT, mode="draft", max_tokens=180, ignore_eos=True) for _ in range(4)]
    answers = driver.run(*requests)
    assert driver.scheduler.counters.preemptions > 0 or driver.context.model.architecture == "mamba"
    assert all(answer.token_ids[:NUM_TOKENS] == plain for answer in answers)


@pytest.mark.parametrize("kind", KINDS)
def test_its_exactness_is_measured_like_any_other(models: Models, kind: str) -> None:
    with running(_path(models, kind), n_ctx=1024, exactness="strict", kv_type="auto") as engine:
        assert engine.scheduler.exactness.verdict.strict
        assert "agree bit for bit" in engine.scheduler.exactness.verdict.reason


@pytest.fixture(params=KINDS)
def context(request: pytest.FixtureRequest, models: Models) -> Iterator[Context]:
    kind: str = request.param
    model = Model(_path(models, kind))
    snapshots = 0 if kind.endswith("without-snapshots") else 4
    params = ContextParams(n_ctx=256, n_seq_max=2, n_outputs_max=16, kv_type="bf16", n_rs_seq=snapshots)
    context = Context(model, params)
    yield context
    context.close()
    model.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_that_makes_way_for_what_is_urgent_is_read_as_if_nothing_had_been(models: Models, kind: str) -> None:
    with running(_path(models, kind), n_ctx=512, prefill_chunk=16) as engine:
        scheduler = engine.scheduler
        [plain] = engine.run(ask(PROMPT, max_tokens=NUM_TOKENS, ignore_eos=True, partition="plain"))
        sequence = engine.submit(ask(PROMPT, max_tokens=NUM_TOKENS, ignore_eos=True))
        urgent: list[int] = []
        while sequence.num_computed_tokens + 16 < len(PROMPT):
            before = sequence.num_computed_tokens
            scheduler.post_urgent(lambda: urgent.append(1))
            scheduler.step()  # as if it had come while the chunk was being read
            assert sequence.num_computed_tokens == before + (16 if engine.context.model.is_recurrent else 0)
            scheduler.take_messages(wait=False)
            scheduler.step()
        engine.drain()
        assert urgent
        assert engine.answer(sequence).token_ids == plain.token_ids
        assert scheduler._slots.repair() == []


def _decode(context: Context, token_ids: list[int], position: int) -> Logits:
    batch = Batch(context.params.n_batch)
    batch.add(token_ids, position, 0, num_outputs=1)
    context.decode(batch)
    return np.copy(context.logits()[0])


@pytest.mark.parametrize("num_kept", [1, 2, 4])
def test_rolled_back_memory_is_as_if_the_rows_had_never_been(context: Context, num_kept: int) -> None:
    prompt = list(range(3 * WINDOW))
    rows = [7, 8, 9, 10, 11]
    _decode(context, prompt, 0)
    expected = _decode(context, [*rows[:num_kept], 99], len(prompt))
    context.clear(0)
    _decode(context, prompt, 0)
    checkpoint = context.checkpoint(0, len(prompt), len(rows))
    _decode(context, rows, len(prompt))
    context.roll_back(0, checkpoint, rows[:num_kept])
    assert context.kv_length(0) == len(prompt) + num_kept
    got = _decode(context, [99], len(prompt) + num_kept)
    np.testing.assert_allclose(got, expected, atol=2e-3)


def test_only_a_whole_state_is_offered_for_reuse(context: Context) -> None:
    _decode(context, list(range(2 * WINDOW)), 0)
    assert context.can_trim(0, 2 * WINDOW)
    assert context.can_trim(0, 2) != context.model.is_recurrent


def test_a_beginning_that_has_left_the_window_is_read_again(models: Models) -> None:
    beginning = bytes(at % 251 for at in range(600))
    with running(models.sliding, n_ctx=2048, slots=1, cached_prefixes=1, prefill_chunk=32) as engine:
        for length in (600, 500):
            prompt = [*beginning[:length], 255]
            [after] = engine.run(ask(prompt, max_tokens=24, ignore_eos=True))
            assert after.finished.num_cached_tokens == 0
            [fresh] = engine.run(ask(prompt, max_tokens=24, ignore_eos=True, partition="fresh"))
            assert after.token_ids == fresh.token_ids
