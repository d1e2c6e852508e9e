"""The header reader agrees with the reference reader, and no broken file is worse than a ModelCorrupt."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import gguf
import pytest

from homespec.engine.llama.gguf import open_header
from homespec.errors import ModelCorrupt
from tests.kits.models import Models

pytestmark = pytest.mark.real

FUZZ = """
import os, sys
from pathlib import Path
from homespec.engine.llama.gguf import open_header
from homespec.errors import ModelCorrupt
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        with open_header(path) as header:
            header.check_complete()
            [header.get(key) for key in header.keys()]
    except ModelCorrupt:
        continue
print("survived")
"""


def test_every_value_and_tensor_is_what_the_reference_reader_says(models: Models) -> None:
    reference = gguf.GGUFReader(models.random)
    with open_header(models.random) as header:
        fields = {key: field for key, field in reference.fields.items() if not key.startswith("GGUF.")}
        assert sorted(header.keys()) == sorted(fields)
        for key, field in fields.items():
            value = header.get(key)
            assert value == (pytest.approx(field.contents()) if isinstance(value, float) else field.contents())
        tensors = {tensor.name: tensor for tensor in header.tensors()}
        assert {name: tensor.size_bytes for name, tensor in tensors.items()} == {
            tensor.name: tensor.n_bytes for tensor in reference.tensors
        }
        assert all(
            header.data_offset + tensors[tensor.name].offset == tensor.data_offset for tensor in reference.tensors
        )
        assert header.get("no.such.key") is None


@pytest.mark.parametrize("missing", [1, 1000])
def test_a_file_cut_short_is_told_with_both_numbers(models: Models, tmp_path: Path, missing: int) -> None:
    whole = models.random.read_bytes()
    # What is cut must reach into the last tensor, behind which there may be padding.
    with open_header(models.random) as header:
        end = max(header.data_offset + tensor.offset + tensor.size_bytes for tensor in header.tensors())
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole[: end - missing])
    message = f"ends at byte {end}, the file has {end - missing}"
    with open_header(path) as header, pytest.raises(ModelCorrupt, match=message):
        header.check_complete()


@pytest.mark.parametrize("size", [0, 3, 4, 8, 24, 200])
def test_a_broken_header_gives_the_library_s_reason(models: Models, tmp_path: Path, size: int) -> None:
    path = tmp_path / "short.gguf"
    path.write_bytes(models.random.read_bytes()[:size])
    with pytest.raises(ModelCorrupt, match="broken GGUF header"), open_header(path):
        pass


def test_random_damage_never_ends_the_process(models: Models, tmp_path: Path) -> None:
    whole = models.random.read_bytes()
    generator = random.Random(5)
    for index in range(150):
        damaged = bytearray(whole[: generator.choice([len(whole), 20_000, 6000])])
        for _ in range(generator.randint(1, 6)):
            at = generator.randrange(min(len(damaged), 4000))
            damaged[at : at + generator.choice([1, 4, 8])] = generator.randbytes(generator.choice([1, 4, 8]))
        (tmp_path / f"{index:03}.gguf").write_bytes(damaged)
    done = subprocess.run(
        [sys.executable, "-c", FUZZ, str(tmp_path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "survived"
