"""Files that cannot be served say why, by kind: not there, corrupt, unsupported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from homespec.engine.llama.gguf import open_header
from homespec.engine.llama.model import Model, with_counted_size
from homespec.errors import ModelCorrupt, ModelNotFound, ModelUnsupported
from tests.kits.gguf_kit import EOS, byte_vocabulary, lfs_pointer, random_llama, truncated, web_page
from tests.kits.models import Models

pytestmark = pytest.mark.real


def test_the_demo_model_is_what_it_is_known_to_be(models: Models) -> None:
    fractions: list[float] = []
    model = Model(models.demo, progress=fractions.append)
    try:
        assert (model.architecture, model.n_layer, model.n_embd, model.n_ctx_train) == ("llama", 30, 576, 8192)
        assert model.vocab.n_vocab == 49152
        assert (model.vocab.bos, model.vocab.eos) == (1, 2)
        assert not model.vocab.adds_bos
        assert {0, 2} <= model.vocab.end_tokens <= set(range(17))
        assert not model.is_recurrent
        assert not model.has_encoder
        assert model.n_swa == 0
        assert model.memory.weights_bytes > 90_000_000
        assert model.chat_template is not None
        assert model.description == "llama 135M Q4_1"
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0
    finally:
        model.close()


@pytest.mark.parametrize(
    ("given", "num_params", "told"),
    [
        ("llama 256M Q4_1", 134_515_008, "llama 135M Q4_1"),
        ("qwen3 8B Q4_K - Medium", 8_190_735_360, "qwen3 8.2B Q4_K - Medium"),
        ("qwen3 ?B Q8_0", 596_049_920, "qwen3 596M Q8_0"),
        ("qwen3moe 30B.A3B Q4_K - Medium", 30_532_122_624, "qwen3moe 30B.A3B Q4_K - Medium"),
        ("llama 8x7B F16", 46_702_792_704, "llama 8x7B F16"),
        ("clip", 1, "clip"),
    ],
)
def test_the_size_in_the_description_is_counted(given: str, num_params: int, told: str) -> None:
    assert with_counted_size(given, num_params) == told


def test_the_header_of_the_demo_model_is_what_the_reference_reader_says(models: Models) -> None:
    vocabulary = models.demo_vocabulary
    with open_header(models.demo) as header:
        assert tuple(header.get("tokenizer.ggml.tokens") or ()) == vocabulary.texts  # type: ignore[arg-type]
        assert tuple(header.get("tokenizer.ggml.token_type") or ()) == vocabulary.types  # type: ignore[arg-type]
        assert tuple(header.get("tokenizer.ggml.merges") or ()) == vocabulary.merges  # type: ignore[arg-type]
        assert header.get("tokenizer.chat_template") == vocabulary.template
        assert header.get("tokenizer.ggml.add_bos_token") is False
        assert header.get("llama.rope.freq_base") == 100_000
        assert len(list(header.tensors())) == 272
        header.check_complete()


@pytest.mark.parametrize("missing_bytes", [1, 98_362_432 - 50_000_000])
def test_a_download_cut_short_is_corrupt_and_both_sizes_are_told(
    models: Models, tmp_path: Path, missing_bytes: int
) -> None:
    size = models.demo.stat().st_size - missing_bytes
    path = truncated(models.demo, tmp_path / "cut.gguf", size)
    with pytest.raises(ModelCorrupt, match=rf"cut short: .* ends at byte 98362432, the file has {size}\b") as caught:
        Model(path)
    assert str(path) in str(caught.value)
    assert "download it again" in str(caught.value)


Break = Callable[[Models, Path], Path]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda models, path: truncated(models.demo, path, 1_000_000), "failed to read key-value pairs"),
        (lambda models, path: truncated(models.demo, path, 0), "failed to read magic"),
        (lambda models, path: lfs_pointer(path), "invalid magic characters"),
        (lambda models, path: web_page(path), "invalid magic characters"),
    ],
    ids=["inside the header", "empty", "LFS pointer", "web page"],
)
def test_what_is_not_a_whole_header_is_corrupt(models: Models, tmp_path: Path, damage: Break, reason: str) -> None:
    with pytest.raises(ModelCorrupt, match=reason):
        Model(damage(models, tmp_path / "broken.gguf"))


def test_a_missing_file_and_a_directory_are_not_called_corrupt(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="No such file"):
        Model(tmp_path / "gone.gguf")
    with pytest.raises(ModelNotFound, match="Is a directory"):
        Model(tmp_path)


def test_a_whole_file_of_an_unknown_architecture_is_unsupported(tmp_path: Path) -> None:
    unknown = replace(random_llama(byte_vocabulary(), 1), architecture="quux").write(tmp_path / "quux.gguf")
    with pytest.raises(ModelUnsupported, match="unknown model architecture: 'quux'"):
        Model(unknown)


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    whole = random_llama(byte_vocabulary(), 1)
    tensors = {name: tensor for name, tensor in whole.tensors.items() if name != "blk.1.attn_q.weight"}
    path = replace(whole, tensors=tensors).write(tmp_path / "missing.gguf")
    with pytest.raises(ModelUnsupported, match=r"blk\.1\.attn_q\.weight"):
        Model(path)


@pytest.mark.parametrize(
    "name", [b"with space", b"quo'te\"", b"new\nline", "emoji 😀".encode(), b"invalid \xff utf-8", b"$HOME;rm"]
)
def test_a_path_may_hold_any_bytes(models: Models, tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    path = folder / "model.gguf"
    path.write_bytes(models.letters.read_bytes())
    Model(path).close()
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(ModelCorrupt, match="cut short"):
        Model(path)


def test_every_text_becomes_tokens_and_comes_back(models: Models) -> None:
    model = Model(models.demo)
    try:
        vocab = model.vocab
        for text in ("", "plain", "é—“”", "日本語 😀🏴󠁧󠁢󠁥󠁮󠁧󠁿", "a\0b", "line\r\n\tend ", "\ud800 lone surrogate"):
            for special in (False, True):
                token_ids = vocab.tokenize(text, add_special=False, parse_special=special)
                assert vocab.detokenize(token_ids) == text.encode(errors="replace").decode()
        assert vocab.tokenize("<|im_end|>", add_special=False, parse_special=True) == [2]
        assert 2 not in vocab.tokenize("<|im_end|>", add_special=False, parse_special=False)
        assert vocab.piece(2) == b""
        assert vocab.detokenize([2]) == "<|im_end|>"
        long = "word " * 20_000
        assert vocab.detokenize(vocab.tokenize(long, add_special=False, parse_special=False)) == long
    finally:
        model.close()


def test_bytes_are_their_own_tokens_in_a_byte_vocabulary(models: Models) -> None:
    model = Model(models.random)
    try:
        text = "é😀\n"
        token_ids = model.vocab.tokenize(text, add_special=True, parse_special=False)
        assert token_ids == list(text.encode())
        assert b"".join(model.vocab.piece(token) for token in token_ids) == text.encode()
        assert model.vocab.is_end(EOS)
        assert not model.vocab.is_end(0)
    finally:
        model.close()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS knows no such limit")
def test_a_file_that_cannot_be_mapped_is_not_said_to_be_unknown(demo_path: Path) -> None:
    """The process may have no more memory: in a process of its own."""
    code = (
        "import psutil, resource, sys\n"
        "from pathlib import Path\n"
        "from homespec.engine.llama.model import Model\n"
        "from homespec.engine.llama.library import library\n"
        "library()\n"
        "size = psutil.Process().memory_info().vms + Path(sys.argv[1]).stat().st_size // 2\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
        "Model(Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(demo_path)], capture_output=True, text=True, check=False)
    complaint = done.stderr.splitlines()[-1]
    assert "mmap failed" in complaint
    assert "ulimit -v" in complaint
    assert "this build knows" not in complaint
