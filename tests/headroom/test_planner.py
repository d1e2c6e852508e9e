"""From settings to a plan: with the real child on real files, and with one that fails."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from homespec.errors import DoesNotFit, GpuMissing, ModelNotFound
from homespec.footprint import HOST, Device, Footprint, Shares
from homespec.headroom import planner
from homespec.headroom.admission import Admission
from homespec.headroom.answers import Answers
from homespec.headroom.choice import Refusal, TargetPlan
from homespec.headroom.marks import WantedMarks
from homespec.headroom.planner import fit
from homespec.headroom.readings import HostMemory
from homespec.headroom.survey import Survey
from homespec.units import GIB, MIB
from tests.headroom.planning import DIES, MARKS, give, plan, settings
from tests.kits import embedding_kit
from tests.kits.engines import running
from tests.kits.footprint_kit import hybrid
from tests.kits.gguf_kit import byte_vocabulary, random_llama
from tests.kits.models import Models

pytestmark = pytest.mark.real


def test_a_device_that_tells_no_size_refuses_nothing(free: pytest.MonkeyPatch) -> None:
    give(free, GIB)
    budget = planner.read_budget([Device("WebGPU", "a card", None, None, False)], WantedMarks(low_bytes=256 * MIB))
    [device, _] = budget.pools()
    assert (device.total_bytes, device.headroom_bytes) == (None, None)
    assert budget.device_shortage(Footprint({"WebGPU": Shares(weights_bytes=GIB)}, 512, "f16")) is None


async def test_the_plan_of_the_demo_model_is_what_the_engine_then_takes(
    models: Models, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    asked = settings(models.demo, n_ctx=2048, slots=2, draft_path=str(models.random_drafter))
    result = await plan(survey, asked, models.random_drafter)
    assert isinstance(result.target, TargetPlan)
    with running(models.demo, draft=models.random_drafter, n_ctx=2048, slots=2) as driver:
        snapshot = driver.engine.scheduler.snapshot()
    assert result.target.footprint.disagreement(snapshot.target_memory) is None
    expected = result.target.footprint.at_load
    assert abs(expected.total_bytes - snapshot.target_memory.total_bytes) < MIB
    assert result.admission is not None
    verdict = result.admission.admitted
    assert verdict is not None
    assert verdict.footprint is not None
    assert abs(verdict.footprint.at_load.total_bytes - snapshot.drafter_memory.total_bytes) < MIB


async def test_the_target_is_planned_the_same_with_and_without_a_drafter(
    models: Models, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    """Budgets around what target and drafter take, on the real model."""
    asked = settings(models.demo)
    for available in (250 * MIB, 420 * MIB, 800 * MIB):
        give(free, available)
        alone, paired = await plan(survey, asked), await plan(survey, asked, models.demo)
        assert alone.target == paired.target
        if isinstance(alone.target, TargetPlan):
            for name in ("n_ctx", "kv_type", "n_gpu_layers", "slots"):
                assert getattr(alone.settings, name) == getattr(paired.settings, name)
            assert alone.budget.shortage(alone.target.footprint) is None


async def test_automatic_context_is_lowered_and_said(models: Models, survey: Survey, free: pytest.MonkeyPatch) -> None:
    give(free, 300 * MIB)
    fitted = await fit(settings(models.demo), MARKS)
    assert fitted.settings.n_ctx is not None
    assert 1024 <= fitted.settings.n_ctx < 8192
    assert any(f"context lowered from 8192 to {fitted.settings.n_ctx} tokens" in event for event in fitted.events)


async def test_a_context_beyond_the_training_is_an_event(models: Models, free: pytest.MonkeyPatch) -> None:
    give(free, 4 * GIB)
    for n_ctx, is_told in ((8192, False), (8448, True)):
        told = (await fit(settings(models.demo, n_ctx=n_ctx, slots=1), MARKS)).events
        assert any("was trained for 8192" in event for event in told) is is_told


async def test_an_absurd_context_is_refused_without_trying_it(models: Models, free: pytest.MonkeyPatch) -> None:
    with pytest.raises(DoesNotFit, match=r"2000000000 tokens .* GiB needed on CPU.*Nearest that fits: --ctx") as caught:
        await fit(settings(models.demo, n_ctx=2_000_000_000), MARKS)
    assert "16" in str(caught.value)


async def test_extending_two_measurements_is_exact_where_it_can_be_checked(
    models: Models, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    """100 000 tokens fit here, so they are measured; on a box of 4 GiB they are extended from 65 536."""
    asked = settings(models.demo, n_ctx=100_000)
    measured = (await plan(survey, asked)).target
    free.setattr(planner, "host_memory", lambda: HostMemory(2 * GIB, GIB))
    extended = (await plan(survey, asked)).target
    assert isinstance(measured, TargetPlan)
    assert isinstance(extended, Refusal)
    assert measured.footprint.measured
    assert not extended.footprint.measured
    assert extended.footprint.total_bytes == pytest.approx(measured.footprint.total_bytes, rel=0.01)


async def test_a_drafter_that_does_not_fit_stays_off_with_the_reason(models: Models, free: pytest.MonkeyPatch) -> None:
    asked = settings(models.demo, n_ctx=1024, kv_type="bf16", draft_path=str(models.demo))
    give(free, 320 * MIB)
    fitted = await fit(asked, MARKS)
    assert "does not fit" in fitted.settings.refused["draft"]
    assert "the target leaves" in fitted.settings.refused["draft"]
    assert any(fitted.settings.refused["draft"] in event for event in fitted.events)
    give(free, 16 * GIB)
    assert (await fit(asked, MARKS)).settings.refused == {}


async def test_without_a_draft_file_nothing_is_refused(models: Models, free: pytest.MonkeyPatch) -> None:
    give(free, 16 * GIB)
    assert (await fit(settings(models.demo), MARKS)).settings.refused == {}


async def test_of_the_files_that_nobody_named_the_best_that_can_draft_is_taken(
    models: Models, free: pytest.MonkeyPatch
) -> None:
    """The first is of another family, the second never pays by its size, the third is small."""
    files = (models.random, models.demo, models.random_drafter)
    asked = settings(models.demo, n_ctx=1024, draft_candidates=tuple(map(str, files)))
    fitted = await fit(asked, MARKS)
    assert fitted.settings.draft_path == str(models.random_drafter)
    assert fitted.settings.draft_gpu_layers == 0 or fitted.settings.draft_n_ctx is None
    assert any(text.startswith(f"{models.random} vocabulary sizes differ by 48864") for text in fitted.events)
    assert any(text.startswith(f"{models.random_drafter} fits in full") for text in fitted.events)


async def test_a_copy_of_another_file_is_out_whatever_it_would_gain_and_the_reason_is_told(
    models: Models, free: pytest.MonkeyPatch
) -> None:
    path = str(models.random_drafter)
    give(free, 16 * GIB)
    asked = settings(models.demo, draft_candidates=(path,), outdated_candidates={path: "was made of another file"})
    fitted = await fit(asked, MARKS)
    assert fitted.settings.draft_path is None
    assert f"{path} was made of another file" in fitted.events


async def test_files_that_nobody_named_and_that_do_not_fit_are_told_and_leave_the_free_ones(
    models: Models, free: pytest.MonkeyPatch
) -> None:
    give(free, 320 * MIB)
    asked = settings(models.demo, n_ctx=1024, kv_type="bf16", draft_candidates=(str(models.demo),))
    fitted = await fit(asked, MARKS)
    assert (fitted.settings.draft_path, fitted.settings.refused) == (None, {})
    assert any(text.startswith(f"{models.demo} does not fit: ") for text in fitted.events)


async def test_a_copy_is_proposed_where_there_is_no_draft_file_and_one_would_pay(
    models: Models, tmp_path: Path, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    path = replace(random_llama(byte_vocabulary(), seed=5), quantized=False).write(tmp_path / "wide.gguf")
    asked = settings(path, n_ctx=512)
    proposal = (await plan(survey, asked)).proposal
    assert proposal is not None
    assert proposal.command == f"homespec derive {path} --quant Q4_0"
    assert proposal.text in (await fit(asked, MARKS)).events
    assert (await plan(survey, asked, models.other_random)).proposal is None
    for off in ({"drafter_mode": "off"}, {"controller": False}, {"max_draft_tokens": 0}):
        assert (await plan(survey, msgspec.structs.replace(asked, **off))).proposal is None
    hybrid = msgspec.structs.replace(asked, model_path=str(models.hybrid))
    assert (await plan(survey, hybrid)).proposal is None  # no copy of it could take tokens back
    assert (await plan(survey, settings(models.demo))).proposal is None  # it has few bits already


async def test_nothing_drafts_beside_a_model_that_makes_embeddings(
    models: Models, tmp_path: Path, survey: Survey
) -> None:
    """Neither what was named, nor a free drafter, nor a copy that would pay if it generated text."""
    path = replace(embedding_kit.causal(byte_vocabulary(), seed=5), quantized=False).write(tmp_path / "wide.gguf")
    asked = settings(path, n_ctx=128)
    alone, named = await plan(survey, asked), await plan(survey, asked, models.other_random)
    assert alone.facts.embeds_only
    assert (alone.proposal, alone.admission) == (None, Admission(()))
    assert named.admission is not None
    [verdict] = named.admission.verdicts
    assert not verdict.is_admitted
    assert "embeds texts and generates none" in verdict.reason
    assert named.settings == asked


async def test_a_context_between_two_steps_is_kept_and_its_cells_are_told(
    models: Models, free: pytest.MonkeyPatch
) -> None:
    fitted = await fit(settings(models.random, n_ctx=300), MARKS)
    assert fitted.settings.n_ctx == 300
    assert any("300 tokens as asked; llama.cpp allocates 512" in event for event in fitted.events)
    with running(models.random, n_ctx=300) as driver:
        assert driver.engine.status.n_ctx == 300


async def test_a_context_beyond_what_the_model_was_trained_for_is_told(
    models: Models, free: pytest.MonkeyPatch
) -> None:
    trained = 1024
    within = await fit(settings(models.random, n_ctx=trained), MARKS)
    beyond = await fit(settings(models.random, n_ctx=2 * trained), MARKS)
    assert not any("trained for" in event for event in within.events)
    assert any(f"the model was trained for {trained}" in event for event in beyond.events)


async def test_a_gpu_that_is_not_there_is_missed_before_anything_is_too_large(
    models: Models, free: pytest.MonkeyPatch
) -> None:
    async def none(survey: Survey) -> tuple[()]:
        return ()

    give(free, 1)
    free.setattr("homespec.headroom.planner.list_devices", none)
    with pytest.raises(GpuMissing, match="gpu_layers = 5 asks for a GPU"):
        await fit(settings(models.random, n_gpu_layers=5), MARKS)
    with pytest.raises(GpuMissing, match="that was in use is gone"):
        await fit(settings(models.random, n_gpu_layers=-1, expects_gpu=True), MARKS)


async def test_a_pair_that_cannot_draft_is_out_before_it_is_measured(
    models: Models, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    result = await plan(survey, settings(models.demo), models.random, check_pairs=True)
    assert result.admission is not None
    assert "vocabulary sizes differ by 48864" in result.admission.verdicts[0].reason


async def test_a_missing_target_is_an_error_of_its_kind(tmp_path: Path, survey: Survey) -> None:
    with pytest.raises(ModelNotFound, match="No such file"):
        await plan(survey, settings(tmp_path / "gone.gguf"))


async def test_a_dry_run_that_dies_is_computed_marked_and_never_lower(
    models: Models, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    """A failed measurement once made 4 GB look like 315 MB."""
    asked = settings(models.demo, n_ctx=4096)
    honest = (await plan(survey, asked, models.demo)).target.footprint
    async with Survey(command=(sys.executable, "-c", DIES)) as dying:
        result = await plan(dying, asked, models.demo)
    computed = result.target.footprint
    assert not computed.measured
    assert computed.note == "the dry run was killed by SIGABRT: GGML_ASSERT failed"
    assert computed.total_bytes >= models.demo.stat().st_size
    for part in ("weights_bytes", "kv_bytes", "compute_bytes", "output_bytes"):
        assert getattr(computed.on(HOST), part) >= getattr(honest.on(HOST), part)
    assert result.admission is not None
    drafter = result.admission.verdicts[0].footprint
    assert drafter is not None
    assert not drafter.measured
    assert drafter.total_bytes >= models.demo.stat().st_size


async def test_a_child_that_cannot_even_start_is_no_reason_not_to_serve(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Survey):
        def __init__(self, answers: Answers | None) -> None:
            super().__init__(answers, command=(sys.executable, "-c", "raise SystemExit(3)"))

    monkeypatch.setattr(planner, "Survey", Broken)
    asked = settings(models.demo)
    fitted = await fit(asked, MARKS)
    assert fitted.settings == asked
    assert fitted.events == ("not measured whether it fits: exited with code 3",)


async def test_a_recurrent_model_takes_its_state_for_every_slot(
    tmp_path: Path, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    asked = settings(hybrid(tmp_path / "hybrid.gguf"), n_ctx=1024, slots=1)
    one = (await plan(survey, asked)).target.footprint
    many = (await plan(survey, msgspec.structs.replace(asked, slots=32))).target.footprint
    assert many.on(HOST).kv_bytes > one.on(HOST).kv_bytes + MIB
