"""The header reader: agrees with gguf's own, and refuses whatever does not add up."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.errors import HomespecError, ModelCorrupt, ModelNotFound
from homespec.store import ggml
from homespec.store.header import read_header
from tests.kits import gguf_kit
from tests.kits.models import Models


def test_block_sizes_are_ggmls() -> None:
    for number, (name, elements, size) in ggml.BLOCKS.items():
        kind = gguf.GGMLQuantizationType(number)
        assert (kind.name, gguf.GGML_QUANT_SIZES[kind]) == (name, (elements, size))


def test_file_types_are_llamas() -> None:
    for number, name in ggml.FILE_TYPES.items():
        known = gguf.LlamaFileType(number).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        assert known == name


@pytest.mark.parametrize("name", ["letters", "random", "hybrid"])
def test_it_agrees_with_gguf(models: Models, name: str) -> None:
    path: Path = getattr(models, name)
    header, reader = read_header(path), gguf.GGUFReader(path)
    assert {tensor.name: tensor.size_bytes for tensor in header.tensors} == {
        str(tensor.name): tensor.n_bytes for tensor in reader.tensors
    }
    assert header.data_offset == reader.data_offset
    assert {*header.metadata, *header.lengths} == {key for key in reader.fields if not key.startswith("GGUF.")}
    assert header.architecture == reader.fields["general.architecture"].contents()
    assert header.n_vocab == gguf_kit.NUM_TOKENS


def test_what_is_read_of_a_real_model(demo_path: Path) -> None:
    header = read_header(demo_path)
    assert (header.architecture, header.quant, header.n_ctx_train, header.n_vocab) == ("llama", "Q4_1", 8192, 49152)


def test_the_vocabulary_tells_relatives_from_strangers(models: Models) -> None:
    vocabulary = models.byte_vocabulary
    strangers = models.write("swapped", gguf_kit.random_llama(vocabulary.with_swapped(5, 6), seed=1))
    assert read_header(models.letters).vocabulary == read_header(models.random).vocabulary
    assert read_header(models.letters).vocabulary != read_header(strangers).vocabulary


@given(st.data())
def test_any_cut_is_refused(models: Models, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = models.letters.read_bytes()
    path = tmp_path_factory.mktemp("cut") / "cut.gguf"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ModelCorrupt):
        read_header(path)


@given(st.data())
def test_any_damage_is_an_answer_and_never_a_crash(
    models: Models, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(models.letters.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(4, 9000))
        content[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
    path = tmp_path_factory.mktemp("damaged") / "damaged.gguf"
    path.write_bytes(content)
    with suppress(HomespecError):
        read_header(path)


def header_bytes(*, version: int = 3, tensors: int = 0, keys: int = 0, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + rest


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


KEY_TWICE = (text("a") + struct.pack("<IB", 0, 1)) * 2
ALIGNMENT_0 = text("general.alignment") + struct.pack("<II", 4, 0)
HUGE_ARRAY = text("a") + struct.pack("<IIQ", 9, 4, 2**62)
NESTED_ARRAY = text("a") + struct.pack("<IIQ", 9, 9, 1) + bytes(50)
UNKNOWN_TYPE = text("a") + struct.pack("<I", 99) + bytes(50)
FIVE_DIMS = text("t") + struct.pack("<I5QIQ", 5, 1, 1, 1, 1, 1, 0, 0)
HUGE_TENSOR = text("t") + struct.pack("<I2QIQ", 2, 2**62, 2**62, 0, 0)
ODD_OFFSET = text("t") + struct.pack("<I1QIQ", 1, 1, 0, 5)


@pytest.mark.parametrize(
    ("content", "fragment"),
    [
        pytest.param(header_bytes(version=1), "version 1", id="version"),
        pytest.param(header_bytes(tensors=2**63), "9223372036854775808 tensors", id="tensors"),
        pytest.param(header_bytes(keys=2**63), "keys", id="keys"),
        pytest.param(header_bytes(keys=1, rest=struct.pack("<Q", 2**63) + bytes(20)), "a text of", id="text"),
        pytest.param(header_bytes(keys=2, rest=KEY_TWICE), "there twice", id="key twice"),
        pytest.param(header_bytes(keys=1, rest=ALIGNMENT_0), "alignment 0", id="alignment"),
        pytest.param(header_bytes(keys=1, rest=HUGE_ARRAY), "entries of 'a'", id="array"),
        pytest.param(header_bytes(keys=1, rest=NESTED_ARRAY), "entry type 9", id="nested array"),
        pytest.param(header_bytes(keys=1, rest=UNKNOWN_TYPE), "unknown type 99", id="type"),
        pytest.param(header_bytes(tensors=1, rest=FIVE_DIMS), "5 dimensions", id="dimensions"),
        pytest.param(header_bytes(tensors=1, rest=HUGE_TENSOR), "larger than any file", id="overflow"),
        pytest.param(header_bytes(tensors=1, rest=ODD_OFFSET), "multiple of 32", id="offset"),
        pytest.param(b"GGUF\3", "breaks off", id="five bytes"),
    ],
)
def test_a_header_that_contradicts_itself(tmp_path: Path, content: bytes, fragment: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelCorrupt, match=fragment):
        read_header(path)


def test_a_damaged_length_does_not_have_the_weights_read_as_a_text(tmp_path: Path) -> None:
    path = tmp_path / "large.gguf"
    path.write_bytes(header_bytes(keys=1, rest=struct.pack("<Q", 2**33)))
    os.truncate(path, 2**34)
    with pytest.raises(ModelCorrupt, match="the limit is 67108864"):
        read_header(path)


def test_a_tensor_type_of_the_future_is_not_judged(models: Models, tmp_path: Path) -> None:
    model = replace(gguf_kit.markov_llama(gguf_kit.permutation()), quantized=True)
    path = model.write(tmp_path / "new.gguf")
    tensor = next(tensor for tensor in read_header(path).tensors if tensor.type == 8)
    content = path.read_bytes()
    at = content.index(tensor.name.encode()) + len(tensor.name) + 4 + 16
    path.write_bytes(content[:at] + struct.pack("<I", 200) + content[at + 4 :])
    assert next(each for each in read_header(path).tensors if each.name == tensor.name).size_bytes is None


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound):
        read_header(tmp_path / "nope.gguf")
