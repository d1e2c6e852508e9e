"""The verdict on exactness is measured, kept, and taken seriously."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from homespec.engine.exactness import Measurement, Verdict, measure
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.engine.target import open_target
from homespec.engine.verdicts import Verdicts
from homespec.errors import ModelUnsupported
from homespec.frames import EngineSettings, Finished, Measured
from tests.kits.engines import Driver, ask, running
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def model(models: Models) -> Iterator[Model]:
    loaded = Model(models.demo)
    yield loaded
    loaded.close()


def outcome(measurement: Measurement) -> Verdict:
    while True:
        try:
            next(measurement)
        except StopIteration as done:
            verdict: Verdict = done.value
            return verdict


def verdict_of(
    model: Model, *, pad_single: bool = False, n_ctx: int = 1024, n_threads: int = 1, **params: Any
) -> Verdict:
    context = Context(
        model,
        ContextParams(n_ctx=n_ctx, n_seq_max=2, n_outputs_max=9, n_batch=128, n_threads=n_threads, **params),
    )
    try:
        verdict = outcome(measure(context, 1, max_rows=9, pad_single=pad_single))
        assert context.kv_length(1) == 0
        return verdict
    finally:
        context.close()


def take_steps(driver: Driver, count: int | None = None) -> None:
    """Steps of the engine's own measurement, as it takes them while idle; all that are left unless told otherwise."""
    while driver.scheduler.exactness.measure is not None and count != 0:
        driver.scheduler.idle_work.step()
        count = None if count is None else count - 1


def test_bf16_keys_with_flash_attention_are_strict_on_this_processor(model: Model) -> None:
    verdict = verdict_of(model, kv_type="bf16", flash_attention="on")
    assert verdict.label == "strict"
    assert "24 and 640 tokens" in verdict.reason


def test_f16_keys_differ_after_a_long_prefix_and_the_reason_has_the_numbers(model: Model) -> None:
    """Two threads share the attention of a single row, and each of several rows is one thread's."""
    verdict = verdict_of(model, kv_type="f16", flash_attention="on", n_threads=2)
    assert verdict.label == "distribution"
    assert "after 640 tokens" in verdict.reason


def test_a_short_prefix_alone_would_not_show_it(model: Model) -> None:
    assert verdict_of(model, kv_type="f16", flash_attention="on", n_ctx=256).strict


def test_padding_single_rows_helps_where_only_they_differ(model: Model) -> None:
    assert verdict_of(model, kv_type="f16", flash_attention="off", n_ctx=256).only_single_rows_differ
    assert verdict_of(model, kv_type="f16", flash_attention="off", n_ctx=256, pad_single=True).strict


def test_a_context_too_small_for_the_probe_is_not_called_strict(models: Models) -> None:
    tiny = Model(models.demo)
    context = Context(tiny, ContextParams(n_ctx=256, n_seq_max=2, n_outputs_max=250, n_batch=256))
    verdict = outcome(measure(context, 1, max_rows=250))
    context.close()
    tiny.close()
    assert verdict.label == "distribution"
    assert "too small" in verdict.reason


def test_a_verdict_is_kept_for_the_same_settings_only(models: Models, tmp_path: Path) -> None:
    with running(models.demo) as one, running(models.demo, n_ctx=1024) as other:
        kept = Verdicts(tmp_path)
        verdict = Verdict(True, "measured")
        assert kept.get(one.context, pad_single=False) is None
        kept.put(one.context, verdict, pad_single=False)
        assert kept.get(one.context, pad_single=False) == verdict
        assert kept.get(one.context, pad_single=True) is None
        assert kept.get(other.context, pad_single=False) is None


def test_a_broken_or_unwritable_cache_is_harmless(models: Models, tmp_path: Path) -> None:
    (tmp_path / "exactness.json").write_text("{broken")
    (tmp_path / "file").write_text("")
    with running(models.demo) as driver:
        assert Verdicts(tmp_path).get(driver.context, pad_single=False) is None
        Verdicts(tmp_path / "file").put(driver.context, Verdict(True, ""), pad_single=False)
        Verdicts(tmp_path).put(driver.context, Verdict(True, ""), pad_single=False)
        assert Verdicts(tmp_path).get(driver.context, pad_single=False) == Verdict(True, "")


def test_the_engine_measures_while_it_is_idle_and_serves_in_between(models: Models) -> None:
    with running(models.demo, n_ctx=2048, exactness="auto", slots=1, cached_prefixes=2) as driver:
        assert "being measured" in driver.scheduler.exactness.verdict.reason
        [before] = driver.run(ask("The capital of France is", max_tokens=8))
        take_steps(driver, 4)
        [between] = driver.run(ask("The capital of France is", max_tokens=8))
        take_steps(driver)
        [after] = driver.run(ask("The capital of France is", max_tokens=8))
        assert before.token_ids == between.token_ids == after.token_ids
        assert [frame.exactness for frame in driver.frames if isinstance(frame, Measured)] == ["strict"]


def test_requests_that_tidy_the_cache_do_not_disturb_the_measurement(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with running(models.demo, n_ctx=2048, exactness="auto", slots=2, cached_prefixes=2) as driver:
        driver.run(ask("two at", max_tokens=2), ask("once", max_tokens=2))
        take_steps(driver, 14)
        driver.run(ask("one alone", max_tokens=2))
        take_steps(driver)
        assert driver.scheduler.exactness.verdict.label == "strict"


def test_strict_refuses_to_start_where_the_asked_settings_cannot_give_it(model: Model, models: Models) -> None:
    settings = EngineSettings(str(models.demo), "demo", n_ctx=1024, slots=4, kv_type="f16", exactness="strict")
    with pytest.raises(ModelUnsupported, match=r"f16 KV: batches of .* rows differ"):
        open_target(settings, model)


def test_strict_without_flash_attention_passes_over_caches_that_need_it(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verdict(_: Verdicts, context: Context, *, pad_single: bool) -> Verdict:
        return Verdict(context.params.kv_type == "f32", "the demo's")

    monkeypatch.setattr(Verdicts, "get", verdict)
    settings = EngineSettings(str(models.random), "random", n_ctx=1024, flash_attention="off", exactness="strict")
    with closing(Model(models.random)) as model:
        context, exactness = open_target(settings, model)
        assert exactness.verdict.strict
        assert context.params.kv_type == "f32"
        context.close()


def test_an_engine_that_pads_single_rows_answers_the_same_with_and_without_drafts(models: Models) -> None:
    with running(
        models.demo,
        draft=models.demo,
        kv_type="f16",
        flash_attention="off",
        exactness="strict",
        n_ctx=256,
        slots=1,
    ) as driver:
        assert driver.scheduler.exactness.pad_single
        plain, drafted = (
            driver.run(ask("The capital of France is", mode=mode, max_draft_tokens=4, max_tokens=24))[0]
            for mode in ("off", "draft")
        )
        assert drafted.speculation.accepted > 0
        assert drafted.token_ids == plain.token_ids


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_with_bf16_keys_the_logprobs_are_the_same_to_the_last_bit_also_in_front_of_a_stop(
    models: Models, temperature: float
) -> None:
    with running(models.demo, draft=models.demo, n_ctx=512, slots=1) as driver:

        def answer(mode: str, stop: tuple[str, ...] = ()) -> Finished:
            request = ask(
                "Once upon a time",
                mode=mode,
                max_draft_tokens=5,
                max_tokens=24,
                temperature=temperature,
                num_logprobs=20,
                stop=stop,
                reuse=False,
            )
            return driver.run(request)[0].finished

        whole = answer("off")
        stop = (whole.text[len(whole.text) // 2 :][:7],)  # of several tokens, in the middle of a block
        plain = answer("off", stop)
        assert 0 < plain.num_output_tokens < whole.num_output_tokens
        assert plain.logprobs == whole.logprobs[: plain.num_output_tokens]
        for mode in ("draft", "ngram", "suffix"):
            drafted = answer(mode, stop)
            assert (drafted.text, drafted.num_output_tokens) == (plain.text, plain.num_output_tokens)
            assert drafted.logprobs == plain.logprobs
            assert drafted.speculation.accepted > 0 or mode != "draft"
