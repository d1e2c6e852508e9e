"""Small models whose memory is not plain: a sliding window, a recurrent state, weights that the CPU copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.kits.gguf_kit import Floats, Shape, TinyModel, byte_vocabulary, random_llama
from tests.kits.hybrid_kit import qwen35

WINDOW = 128
_SHAPE = Shape(n_embd=256, n_layer=6, n_head=4, n_head_kv=2, n_ff=512, n_ctx_train=8192)


def windowed(path: Path) -> Path:
    """gemma3: five layers attend to a window, the sixth to everything."""
    writer = _writer(path, "gemma3", _SHAPE, _SHAPE.n_layer)
    writer.add_sliding_window(WINDOW)
    rng = np.random.default_rng(1)
    for layer in range(_SHAPE.n_layer):
        _attention(writer, rng, layer)
        for name in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            _norm(writer, f"blk.{layer}.{name}", _SHAPE.n_embd)
        _ffn(writer, rng, layer)
    return _finish(writer, rng)


def hybrid(path: Path) -> Path:
    """qwen35: every second layer is recurrent, and a head that predicts one token more lies in the same file."""
    return hybrid_model().write(path)


def hybrid_model() -> TinyModel:
    rng = np.random.default_rng(2)

    def matrix(rows: int, columns: int) -> Floats:
        return rng.standard_normal((rows, columns), dtype=np.float32) / np.float32(np.sqrt(columns))

    ends = {
        "token_embd.weight": matrix(len(byte_vocabulary().texts), _SHAPE.n_embd),
        "output_norm.weight": np.ones(_SHAPE.n_embd, np.float32),
    }
    return qwen35(_SHAPE, ends, matrix, state_size=32, has_mtp=True, quantized=False)


def repacked(path: Path) -> Path:
    """A llama in Q4_0, which most CPUs multiply in a layout of their own."""
    model = random_llama(byte_vocabulary(), seed=3, shape=_SHAPE)
    kind = gguf.GGMLQuantizationType.Q4_0
    writer = _writer(path, "llama", _SHAPE, _SHAPE.n_layer)
    for name, tensor in model.tensors.items():
        if tensor.ndim == 1:
            writer.add_tensor(name, tensor)
        else:
            writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
    return _close(writer)


def eagle_head(path: Path, *, target_width: int, layers: tuple[int, ...] = (0, 1, 2)) -> Path:
    """An EAGLE-3 head that borrows the target's embeddings, so it is as wide as the target."""
    shape = Shape(n_embd=target_width, n_ctx_train=8192)
    writer = _writer(path, "eagle3", shape, 1)
    writer.add_array("eagle3.target_layers", list(layers))
    writer.add_uint32("eagle3.target_hidden_size", target_width)
    writer.add_bool("eagle3.norm_before_residual", False)
    rng = np.random.default_rng(4)
    n_embd, kv_width = target_width, shape.n_head_kv * shape.head_dim
    for name, rows, columns in (
        ("fc", n_embd, len(layers) * target_width),
        ("output", len(byte_vocabulary().texts), n_embd),
        ("blk.0.attn_q", n_embd, 2 * n_embd),
        ("blk.0.attn_k", kv_width, 2 * n_embd),
        ("blk.0.attn_v", kv_width, 2 * n_embd),
        ("blk.0.attn_output", n_embd, n_embd),
        ("blk.0.ffn_gate", shape.n_ff, n_embd),
        ("blk.0.ffn_up", shape.n_ff, n_embd),
        ("blk.0.ffn_down", n_embd, shape.n_ff),
    ):
        _matrix(writer, rng, name, rows, columns)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.attn_norm_2", "blk.0.ffn_norm"):
        _norm(writer, name, n_embd)
    return _close(writer)


def _writer(path: Path, architecture: str, shape: Shape, num_blocks: int) -> Any:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(shape.n_ctx_train)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(num_blocks)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head_kv)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(10000.0)
    byte_vocabulary().write(writer)
    return writer


def _attention(writer: Any, rng: np.random.Generator, layer: int) -> None:
    shape = _SHAPE
    _matrix(writer, rng, f"blk.{layer}.attn_q", shape.n_head * shape.head_dim, shape.n_embd)
    for name in ("attn_k", "attn_v"):
        _matrix(writer, rng, f"blk.{layer}.{name}", shape.n_head_kv * shape.head_dim, shape.n_embd)
    _matrix(writer, rng, f"blk.{layer}.attn_output", shape.n_embd, shape.n_head * shape.head_dim)
    for name in ("attn_q_norm", "attn_k_norm"):
        _norm(writer, f"blk.{layer}.{name}", shape.head_dim)


def _ffn(writer: Any, rng: np.random.Generator, layer: int) -> None:
    for name in ("ffn_gate", "ffn_up"):
        _matrix(writer, rng, f"blk.{layer}.{name}", _SHAPE.n_ff, _SHAPE.n_embd)
    _matrix(writer, rng, f"blk.{layer}.ffn_down", _SHAPE.n_embd, _SHAPE.n_ff)


def _matrix(writer: Any, rng: np.random.Generator, name: str, rows: int, columns: int) -> None:
    matrix: Floats = rng.standard_normal((rows, columns), dtype=np.float32)
    writer.add_tensor(f"{name}.weight", (matrix / np.float32(np.sqrt(columns))).astype(np.float16))


def _norm(writer: Any, name: str, size: int) -> None:
    writer.add_tensor(f"{name}.weight", np.ones(size, np.float32))


def _finish(writer: Any, rng: np.random.Generator) -> Path:
    num_tokens = len(byte_vocabulary().texts)
    _matrix(writer, rng, "token_embd", num_tokens, _SHAPE.n_embd)
    _norm(writer, "output_norm", _SHAPE.n_embd)
    return _close(writer)


def _close(writer: Any) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    path = Path(writer.path)
    writer.close()
    return path
