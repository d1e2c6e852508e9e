"""A refused drafter beside an engine that runs: the same gate, in what is free now."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.frames import Admit
from homespec.headroom.marks import WantedMarks
from homespec.headroom.planner import fit
from homespec.headroom.reconsider import SecondLook, reconsider
from homespec.units import MIB, format_bytes
from tests.headroom.planning import MARKS, give, head_pair, settings
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.fixture
def beside(free: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An engine that maps nothing: what `give` says is free beside its target."""
    free.setattr("homespec.headroom.reconsider.mapped_bytes", lambda pid: 0)
    return free


async def test_a_refused_drafter_is_measured_against_what_is_free_beside_the_target(
    models: Models, beside: pytest.MonkeyPatch
) -> None:
    asked = settings(models.demo, n_ctx=1024, kv_type="bf16", draft_path=str(models.demo))
    give(beside, 320 * MIB)
    engine = (await fit(asked, MARKS)).settings
    assert engine.refused
    give(beside, 180 * MIB)
    no = await reconsider(engine, 1, marks=MARKS)
    assert no.way is None
    [needed] = {size.total_bytes for size in no.sizes}
    assert f"{format_bytes(needed)} needed on CPU and the target leaves" in no.reason
    give(beside, needed + 130 * MIB)
    yes = await reconsider(engine, 1, marks=MARKS)
    assert yes.way == Admit(None, None, 0)
    admitted = yes.way.applied_to(engine)
    assert admitted.refused == {}
    for name in ("n_ctx", "kv_type", "n_gpu_layers", "slots", "mmap", "threads"):
        assert getattr(admitted, name) == getattr(engine, name)
    higher = await reconsider(engine, 1, marks=WantedMarks(100 * MIB, 50 * MIB, 400 * MIB))
    assert higher.way is None


async def test_what_only_a_restart_could_load_is_not_let_in(models: Models, beside: pytest.MonkeyPatch) -> None:
    target, _ = head_pair(models, "mtp")
    engine = settings(target, n_ctx=512, draft_path=str(target), refused={"draft": "does not fit"})
    assert await reconsider(engine, 1, marks=MARKS) == SecondLook(
        None, "it is loaded together with the target; restart homespec to try again"
    )


async def test_a_draft_file_that_is_gone_is_no_matter_of_memory(
    models: Models, tmp_path: Path, beside: pytest.MonkeyPatch
) -> None:
    engine = settings(models.random, draft_path=str(tmp_path / "gone.gguf"), refused={"draft": "does not fit"})
    look = await reconsider(engine, 1, marks=MARKS)
    assert (look.way, look.sizes) == (None, ())
    assert "gone.gguf cannot be read" in look.reason
