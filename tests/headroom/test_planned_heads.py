"""Drafters that read the target's states, sized by the real child and then really loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from homespec.engine.drafters.hosts import host_of
from homespec.engine.llama.model import Load, Model
from homespec.footprint import HOST
from homespec.headroom.questions import check_pair
from homespec.headroom.survey import Survey
from homespec.units import MIB
from tests.headroom.planning import DIES, head_pair, plan, settings
from tests.kits.engines import running
from tests.kits.gguf_kit import TinyModel
from tests.kits.heads_kit import dflash_lag, eagle3_markov, hybrid_mtp_markov
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.mark.parametrize("kind", ["eagle3", "dflash", "dspark", "mtp", "mtp-alone"])
async def test_what_a_head_takes_is_told_before_it_is_loaded(
    models: Models, survey: Survey, free: pytest.MonkeyPatch, kind: str
) -> None:
    target, head = head_pair(models, kind)
    asked = settings(target, n_ctx=8192, slots=3, kv_type="bf16", draft_path=str(head))
    result = await plan(survey, asked, head)
    assert result.admission is not None
    verdict = result.admission.admitted
    assert verdict is not None
    assert verdict.footprint is not None
    assert verdict.footprint.measured
    with running(target, draft=head, n_ctx=8192, slots=3) as driver:
        snapshot = driver.engine.scheduler.snapshot()
    expected, taken = verdict.footprint.at_load, snapshot.drafter_memory
    assert expected.kv_bytes == pytest.approx(taken.kv_bytes, abs=MIB / 50)
    assert expected.compute_bytes == pytest.approx(taken.compute_bytes, abs=MIB / 50)
    if kind == "mtp":  # its weights are loaded with the target's
        assert taken.weights_bytes == 0
        assert 0 < expected.weights_bytes < target.stat().st_size
    else:
        assert expected.weights_bytes == pytest.approx(taken.weights_bytes, abs=MIB / 50)
    assert result.loaded.at_load.weights_bytes == pytest.approx(snapshot.target_memory.weights_bytes, abs=MIB / 50)


async def test_the_block_of_the_targets_file_is_computed_where_it_cannot_be_measured(
    models: Models, survey: Survey, free: pytest.MonkeyPatch
) -> None:
    target, _ = head_pair(models, "mtp")
    asked = settings(target, n_ctx=8192, kv_type="bf16", draft_path=str(target))
    honest = (await plan(survey, asked, target)).admission
    async with Survey(command=(sys.executable, "-c", DIES)) as dying:
        result = (await plan(dying, asked, target)).admission
    assert honest is not None
    assert result is not None
    measured, computed = honest.verdicts[0].footprint, result.verdicts[0].footprint
    assert measured is not None
    assert computed is not None
    assert not computed.measured
    assert "SIGABRT" in computed.note
    for part in ("weights_bytes", "kv_bytes"):
        assert getattr(computed.on(HOST), part) >= getattr(measured.on(HOST), part)
    assert computed.on(HOST).weights_bytes < target.stat().st_size


async def test_a_block_of_the_targets_file_that_does_not_fit_is_not_loaded_with_it(
    models: Models, free: pytest.MonkeyPatch
) -> None:
    target, _ = head_pair(models, "mtp")
    with running(target, draft=target) as driver:
        whole = driver.engine.scheduler.snapshot().target_memory
    with running(target, draft=target, refused={"draft": "does not fit"}) as driver:
        assert driver.drafter_status("mtp").reason == "does not fit"
        assert driver.engine.scheduler.snapshot().target_memory.total_bytes < whole.total_bytes
        assert driver.context.taps is None


@pytest.mark.parametrize("make", [eagle3_markov, dflash_lag])
@pytest.mark.parametrize(
    ("last", "reason"),
    [(2, "target layer 2 is the last one's output"), (3, "[0, 1, 3] are not within the target's 0 to 2")],
)
async def test_a_head_that_reads_the_targets_mtp_block_is_refused(
    models: Models, survey: Survey, make: Callable[..., TinyModel], last: int, reason: str
) -> None:
    """Two layers and an MTP block: the file counts three."""
    target = models.write("hybrid-mtp", hybrid_mtp_markov(models.chain))
    head = models.write(f"{make.__name__}-{last}", make(models.chain, layers=(0, 1, last)))
    checked = await check_pair(survey, str(target), str(head))
    assert any(reason in failure for failure in checked.failures)


def test_a_loaded_target_counts_its_layers_without_the_mtp_block(models: Models) -> None:
    model = Model(models.write("hybrid-mtp", hybrid_mtp_markov(models.chain)), load=Load.SIZES)
    assert (host_of(model).n_layer, model.num_mtp_layers) == (2, 1)
    model.close()
