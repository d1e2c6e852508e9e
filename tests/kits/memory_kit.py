"""Models whose memory is not a plain list of keys: random weights, so that every token depends on all before it."""

from __future__ import annotations

import numpy as np

from tests.kits.gguf_kit import Floats, Shape, TinyModel, Vocabulary, byte_vocabulary
from tests.kits.hybrid_kit import Matrix, qwen35

SHAPE = Shape(n_layer=4)
WINDOW = 24
"""Tokens that the sliding layers look back on."""
_SSM_F32 = ("ssm_a",)


def sliding(vocabulary: Vocabulary, seed: int) -> TinyModel:
    """olmo2: three layers with a sliding window, then one that sees everything."""
    matrix = _matrices(seed)
    tensors = _ends(vocabulary, matrix)
    kv_size = SHAPE.n_head_kv * SHAPE.head_dim
    for layer in range(SHAPE.n_layer):
        tensors |= _named(
            layer,
            **_attention(matrix, query_size=SHAPE.n_embd),
            **_feed_forward(matrix),
            attn_q_norm=_ones(SHAPE.n_embd),
            attn_k_norm=_ones(kv_size),
            post_attention_norm=_ones(SHAPE.n_embd),
            post_ffw_norm=_ones(SHAPE.n_embd),
        )
    sizes = {"olmo2.attention.sliding_window": WINDOW}
    return TinyModel(vocabulary, SHAPE, tensors, architecture="olmo2", metadata=sizes)


def recurrent(vocabulary: Vocabulary, seed: int) -> TinyModel:
    """mamba: nothing but a running state, and no snapshots of it."""
    matrix = _matrices(seed)
    inner, state, rank = 2 * SHAPE.n_embd, 16, 32
    tensors = _ends(vocabulary, matrix)
    for layer in range(SHAPE.n_layer):
        tensors |= _named(
            layer,
            attn_norm=_ones(SHAPE.n_embd),
            ssm_in=matrix(2 * inner, SHAPE.n_embd),
            ssm_conv1d=matrix(inner, 4),
            ssm_x=matrix(rank + 2 * state, inner),
            ssm_dt=matrix(inner, rank),
            ssm_out=matrix(SHAPE.n_embd, inner),
        )
        tensors |= {
            f"blk.{layer}.ssm_conv1d.bias": np.zeros(inner, np.float32),
            f"blk.{layer}.ssm_dt.bias": np.zeros(inner, np.float32),
            f"blk.{layer}.ssm_a": -_steps(state, inner),
            f"blk.{layer}.ssm_d": _ones(inner),
        }
    sizes = {
        "mamba.ssm.conv_kernel": 4,
        "mamba.ssm.inner_size": inner,
        "mamba.ssm.state_size": state,
        "mamba.ssm.time_step_rank": rank,
    }
    return TinyModel(vocabulary, SHAPE, tensors, architecture="mamba", metadata=sizes, in_f32=_SSM_F32)


def hybrid(seed: int) -> TinyModel:
    """qwen35: layers with a running state and layers with attention in turn; snapshots where they are asked for."""
    matrix = _matrices(seed)
    return qwen35(SHAPE, _ends(byte_vocabulary(), matrix), matrix)


def _attention(matrix: Matrix, query_size: int) -> dict[str, Floats]:
    kv_size = SHAPE.n_head_kv * SHAPE.head_dim
    return {
        "attn_q": matrix(query_size, SHAPE.n_embd),
        "attn_k": matrix(kv_size, SHAPE.n_embd),
        "attn_v": matrix(kv_size, SHAPE.n_embd),
        "attn_output": matrix(SHAPE.n_embd, SHAPE.n_embd),
    }


def _feed_forward(matrix: Matrix) -> dict[str, Floats]:
    return {
        "ffn_gate": matrix(SHAPE.n_ff, SHAPE.n_embd),
        "ffn_up": matrix(SHAPE.n_ff, SHAPE.n_embd),
        "ffn_down": matrix(SHAPE.n_embd, SHAPE.n_ff),
    }


def _ends(vocabulary: Vocabulary, matrix: Matrix) -> dict[str, Floats]:
    num_tokens = len(vocabulary.texts)
    return {
        "token_embd.weight": matrix(num_tokens, SHAPE.n_embd),
        "output.weight": matrix(num_tokens, SHAPE.n_embd),
        "output_norm.weight": _ones(SHAPE.n_embd),
    }


def _named(layer: int, **weights: Floats) -> dict[str, Floats]:
    return {f"blk.{layer}.{name}.weight": weight for name, weight in weights.items()}


def _matrices(seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    return lambda rows, columns: (
        rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(2 / np.sqrt(columns))
    )


def _ones(size: int) -> Floats:
    return np.ones(size, np.float32)


def _steps(state: int, inner: int) -> Floats:
    """How fast each of the `state` parts forgets, as Mamba is initialised (Gu and Dao 2023, §3.6)."""
    return np.tile(np.arange(1, state + 1, dtype=np.float32), (inner, 1))
