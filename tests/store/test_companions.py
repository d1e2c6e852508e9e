"""Draft files that lie with a model are found without being named."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.errors import ModelNotFound
from homespec.store.companions import SOURCE_KEY, Companion, companions, copy_path, source_mark
from tests.kits.gguf_kit import markov_llama, truncated
from tests.kits.heads_kit import hybrid_mtp_markov, mtp_markov
from tests.kits.models import Models
from tests.kits.splitting import split


@pytest.fixture
def model(models: Models, tmp_path: Path) -> Path:
    return Path(shutil.copy(models.markov, tmp_path / "a[1].Q8_0.gguf"))


def made(model: Path, recipe: str, *, age_s: int) -> Path:
    path = Path(shutil.copy(model, copy_path(model, recipe)))
    os.utime(path, (1_700_000_000 - age_s, 1_700_000_000 - age_s))
    return path


def paths(model: Path) -> tuple[Path, ...]:
    """Of those that may draft, all of them."""
    found = companions(model)
    assert not any(each.unusable for each in found)
    return tuple(each.path for each in found)


def marked(model: Path, models: Models, recipe: str, mark: str) -> Path:
    tiny = markov_llama(models.chain, seed=9)
    return replace(tiny, metadata={SOURCE_KEY: mark}).write(copy_path(model, recipe))


def test_copies_are_found_the_newest_first(model: Path) -> None:
    assert paths(model) == ()
    old, new = made(model, "Q2_K", age_s=100), made(model, "layers-0-1", age_s=10)
    twin = made(model, "Q4_0", age_s=10)
    assert paths(model) == (twin, new, old)


def test_what_only_looks_like_a_copy_is_left_out(model: Path) -> None:
    good = made(model, "Q2_K", age_s=0)
    truncated(good, copy_path(model, "Q3_K_M"), good.stat().st_size // 2)
    copy_path(model, "Q4_0").write_text("no model")
    copy_path(model, "Q5_0").mkdir()
    shutil.copy(model, model.with_name("a1.Q8_0.draft-Q2_K.gguf"))  # of another model, whose name a pattern would take
    shutil.copy(good, model.with_name(f".{good.name}.12.part"))  # being written
    assert paths(model) == (good,)


def test_an_mtp_block_comes_before_any_copy(models: Models, tmp_path: Path) -> None:
    for name, tiny in (("glm", mtp_markov(models.chain)), ("qwen", hybrid_mtp_markov(models.chain))):
        model = tiny.write(tmp_path / f"{name}.gguf")
        copy = made(model, "Q2_K", age_s=0)
        assert paths(model) == (model, copy)


def test_a_number_of_layers_that_is_no_number_means_no_mtp_block(models: Models, tmp_path: Path) -> None:
    tiny = mtp_markov(models.chain)
    key = f"{tiny.architecture}.block_count"
    assert companions(replace(tiny, metadata={**tiny.metadata, key: "many"}).write(tmp_path / "odd.gguf")) == ()


def test_a_copy_of_a_model_that_was_replaced_under_its_name_is_out_and_the_reason_is_told(
    models: Models, model: Path
) -> None:
    old = made(model, "Q2_K", age_s=1_000_000_000)  # of an earlier release, which left no mark
    copy = marked(model, models, "Q4_0", source_mark(model))
    assert paths(model) == (copy, old)
    shutil.copy(models.markov_drafter, model)
    outdated, unmarked = companions(model)
    assert unmarked == Companion(old)
    assert outdated.path == copy
    assert re.fullmatch(r"was made of another file .*--force.*--draft.*", str(outdated.unusable))


def test_all_parts_of_a_split_model_count(models: Models, tmp_path: Path) -> None:
    parts = split(markov_llama(models.chain), tmp_path, "whole", 3)
    marks = {source_mark(parts[0])}
    for part in parts:
        data = bytearray(part.read_bytes())
        data[-1] ^= 1
        part.write_bytes(data)
        marks.add(source_mark(parts[0]))
    assert len(marks) == 4


def test_a_model_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        companions(tmp_path / "gone.gguf")
    with pytest.raises(ModelNotFound, match=r"gone\.gguf cannot be read"):
        source_mark(tmp_path / "gone.gguf")
