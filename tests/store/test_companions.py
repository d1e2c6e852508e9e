"""Draft files that lie with a model are found without being named."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from homespec.errors import ModelNotFound
from homespec.store.companions import companions, copy_path
from tests.kits.gguf_kit import truncated
from tests.kits.heads_kit import hybrid_mtp_markov, mtp_markov
from tests.kits.models import Models


@pytest.fixture
def model(models: Models, tmp_path: Path) -> Path:
    return Path(shutil.copy(models.markov, tmp_path / "a[1].Q8_0.gguf"))


def made(model: Path, recipe: str, *, age_s: int) -> Path:
    path = Path(shutil.copy(model, copy_path(model, recipe)))
    os.utime(path, (1_700_000_000 - age_s, 1_700_000_000 - age_s))
    return path


def test_copies_are_found_the_newest_first(model: Path) -> None:
    assert companions(model) == ()
    old, new = made(model, "Q2_K", age_s=100), made(model, "layers-0-1", age_s=10)
    twin = made(model, "Q4_0", age_s=10)
    assert companions(model) == (twin, new, old)


def test_what_only_looks_like_a_copy_is_left_out(model: Path) -> None:
    good = made(model, "Q2_K", age_s=0)
    truncated(good, copy_path(model, "Q3_K_M"), good.stat().st_size // 2)
    copy_path(model, "Q4_0").write_text("no model")
    copy_path(model, "Q5_0").mkdir()
    shutil.copy(model, model.with_name("a1.Q8_0.draft-Q2_K.gguf"))  # of another model, whose name a pattern would take
    shutil.copy(good, model.with_name(f".{good.name}.12.part"))  # being written
    assert companions(model) == (good,)


def test_an_mtp_block_comes_before_any_copy(models: Models, tmp_path: Path) -> None:
    for name, tiny in (("glm", mtp_markov(models.chain)), ("qwen", hybrid_mtp_markov(models.chain))):
        model = tiny.write(tmp_path / f"{name}.gguf")
        copy = made(model, "Q2_K", age_s=0)
        assert companions(model) == (model, copy)


def test_a_model_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        companions(tmp_path / "gone.gguf")
