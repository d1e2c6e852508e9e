"""What a draft file holds is told by its header, without loading it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from homespec.engine.drafters.choice import FREE, FREE_TEXTS
from homespec.engine.drafters.hosts import Host
from homespec.engine.drafters.kind import DFLASH, DRAFT, DSPARK, EAGLE3, MTP, SYMBOLS, Head, read_head
from homespec.engine.drafters.pair import head_mismatches
from homespec.engine.drafters.roster import AUTO, OFF
from homespec.engine.llama.library import EXTENSIONS
from homespec.errors import ModelError
from homespec.metrics import DRAFTER_NAMES
from homespec.wire.generation import DrafterMode
from tests.kits.gguf_kit import TinyModel, lfs_pointer
from tests.kits.heads_kit import (
    BLOCK,
    TAPPED,
    WIDTH,
    dense_markov,
    dflash_lag,
    dspark_markov,
    eagle3_markov,
    mtp_markov,
    random_eagle3,
)
from tests.kits.models import Models

pytestmark = pytest.mark.real


@pytest.fixture
def target(models: Models) -> Path:
    return models.write("dense-markov", dense_markov(models.chain))


def head(models: Models, name: str, model: TinyModel, target: Path) -> Head:
    return read_head(models.write(name, model), target)


def test_an_ordinary_model_is_a_draft_model(models: Models, target: Path) -> None:
    assert read_head(models.markov, target).kind == DRAFT
    assert not read_head(models.markov, target).reads_target


def test_eagle3(models: Models, target: Path) -> None:
    found = head(models, "eagle3", eagle3_markov(models.chain), target)
    assert (found.kind, found.target_layers, found.target_hidden_size) == (EAGLE3, TAPPED, WIDTH)
    assert (found.n_embd, found.n_vocab, found.mapped_ids) == (WIDTH, 288, (0, 255))
    assert head(models, "random-eagle3", random_eagle3(1), target).mapped_ids is None


def test_dflash(models: Models, target: Path) -> None:
    found = head(models, "dflash", dflash_lag(models.chain), target)
    assert (found.kind, found.target_layers, found.block_size) == (DFLASH, TAPPED, BLOCK)
    assert not found.is_causal
    assert not found.has_mrope
    assert not found.has_confidence
    assert head(models, "dflash-mrope", dflash_lag(models.chain, has_mrope=True), target).has_mrope


@pytest.mark.parametrize("from_anchor", [True, False])
def test_dspark(models: Models, target: Path, from_anchor: bool) -> None:
    model = dspark_markov(models.chain, from_anchor=from_anchor)
    found = head(models, f"dspark-{from_anchor}", model, target)
    assert (found.kind, found.samples_from_anchor, found.has_confidence) == (DSPARK, from_anchor, True)


def test_a_model_with_an_mtp_block_is_a_head_only_of_itself(models: Models, target: Path, tmp_path: Path) -> None:
    model = mtp_markov(models.chain)
    path = models.write("mtp", model)
    found = read_head(path, path)
    assert (found.kind, found.num_mtp_layers) == (MTP, 1)
    assert read_head(path, target).kind == DRAFT
    link = tmp_path / "link.gguf"
    link.symlink_to(path)
    assert read_head(link, path).kind == MTP


def test_a_file_with_the_mtp_block_alone_is_a_head(models: Models, target: Path) -> None:
    model = mtp_markov(models.chain)
    alone = {name: tensor for name, tensor in model.tensors.items() if not name.startswith(("blk.0", "blk.1"))}
    assert head(models, "mtp-only", replace(model, tensors=alone), target).kind == MTP


def test_a_trunk_that_only_says_that_it_has_an_mtp_block_is_a_draft_model(models: Models) -> None:
    model = mtp_markov(models.chain)
    trunk = {name: tensor for name, tensor in model.tensors.items() if "nextn" not in name}
    path = models.write("mtp-trunk", replace(model, tensors=trunk))
    assert read_head(path, path).kind == DRAFT


def test_a_file_that_is_no_model_is_an_error(target: Path, tmp_path: Path) -> None:
    for path in (tmp_path / "gone.gguf", tmp_path, lfs_pointer(tmp_path / "pointer.gguf")):
        with pytest.raises(ModelError):
            read_head(path, target)


def test_what_a_kind_needs_of_the_library_is_bound() -> None:
    assert {name for names in SYMBOLS.values() for name in names} <= set(EXTENSIONS)


@pytest.mark.parametrize(
    "key",
    ["nextn_predict_layers", "block_count", "target_layers", "target_hidden_size", "embedding_length", "block_size"],
)
@pytest.mark.parametrize("value", ["many", 2.5, ["a", "b"]])
def test_a_header_with_values_of_other_types_is_a_file_that_fits_nothing(
    models: Models, target: Path, key: str, value: str | float | list[str]
) -> None:
    model = dflash_lag(models.chain)
    metadata: dict[str, Any] = {**model.metadata, f"{model.architecture}.{key}": value}
    odd = replace(model, metadata=metadata)
    found = head(models, f"odd-{key}-{value}", odd, target)
    assert found.kind == DFLASH
    host = Host("llama", WIDTH, 2, 288)
    assert all(isinstance(reason, str) for reason in head_mismatches(host, found))


def test_every_drafter_can_be_named_in_a_request_and_is_counted() -> None:
    assert {*get_args(DrafterMode)} == {AUTO, OFF, *SYMBOLS, *FREE_TEXTS}
    assert {*DRAFTER_NAMES} == {*SYMBOLS, *FREE}
