"""Models in several files."""

from __future__ import annotations

from pathlib import Path

import pytest

from homespec.errors import ModelCorrupt, ModelError, ModelNotFound
from homespec.split import model_name, parts
from homespec.store.model_file import resolve, served_name
from homespec.store.shards import read_parts
from tests.kits import gguf_kit
from tests.kits.splitting import split


@pytest.fixture
def shards(tmp_path: Path) -> tuple[Path, ...]:
    return split(gguf_kit.markov_llama(gguf_kit.permutation()), tmp_path, "tiny", 3)


def fault(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        read_parts(path)
    return str(caught.value)


def test_any_part_stands_for_the_model(shards: tuple[Path, ...]) -> None:
    for path in shards:
        assert parts(path) == shards
        assert resolve(str(path), demo=False) == shards[0]
        assert served_name(str(path), shards[0]) == model_name(path) == "tiny"
    assert len(read_parts(shards[0])) == 3


def test_links_with_their_names_in_another_folder(shards: tuple[Path, ...], tmp_path: Path) -> None:
    """As in a hub cache: the blobs have other names, and lie elsewhere."""
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for index, path in enumerate(shards):
        (snapshot / path.name).symlink_to(path.rename(tmp_path / f"blob{index}"))
    assert resolve(str(snapshot / shards[1].name), demo=False) == snapshot / shards[0].name


def test_of_many_missing_parts_some_are_named(shards: tuple[Path, ...], tmp_path: Path) -> None:
    alone = shards[0].rename(tmp_path / "tiny-00001-of-90000.gguf")
    assert fault(alone) == (
        f"{tmp_path} lacks tiny-00002-of-90000.gguf, tiny-00003-of-90000.gguf, tiny-00004-of-90000.gguf and 89996 more "
        "of a model in 90000 files; download what is missing"
    )


def test_a_missing_part_is_named(shards: tuple[Path, ...]) -> None:
    shards[1].unlink()
    assert shards[1].name in fault(shards[0])
    with pytest.raises(ModelNotFound):
        read_parts(shards[0])


def test_parts_that_swapped_names(shards: tuple[Path, ...]) -> None:
    third = shards[2].read_bytes()
    shards[2].write_bytes(shards[1].read_bytes())
    shards[1].write_bytes(third)
    assert "says that it is file 3 of 3, its name says 2 of 3" in fault(shards[0])


def test_a_part_of_another_split(shards: tuple[Path, ...], tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    smaller = gguf_kit.table_llama(gguf_kit.markov_table(gguf_kit.permutation()))
    few = type(smaller)(smaller.vocabulary, smaller.shape, dict(list(smaller.tensors.items())[:6]), quantized=False)
    shards[1].write_bytes(split(few, other, "other", 3)[1].read_bytes())
    assert "not of one model" in fault(shards[0])


def test_a_part_cut_short(shards: tuple[Path, ...]) -> None:
    shards[2].write_bytes(shards[2].read_bytes()[:-1])
    assert str(shards[2]) in fault(shards[0])
    with pytest.raises(ModelCorrupt, match="cut short"):
        read_parts(shards[0])
