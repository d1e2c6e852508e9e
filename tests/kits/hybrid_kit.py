"""qwen35 made for tests: layers with a running state and layers with attention in turn, and perhaps an MTP block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.kits.gguf_kit import Floats, Shape, TinyModel, _layer, byte_vocabulary

Matrix = Callable[[int, int], Floats]
"""Weights of a matrix with so many rows and columns."""

_GROUPS, _HEADS = 2, 4


def qwen35(
    shape: Shape,
    ends: Mapping[str, Floats],
    matrix: Matrix,
    *,
    state_size: int = 16,
    has_mtp: bool = False,
    quantized: bool = True,
) -> TinyModel:
    """shape: of the trunk, whose first layer has a running state. ends: embeddings, and what follows the last layer."""
    num_blocks = shape.n_layer + has_mtp
    tensors = dict(ends)
    for layer in range(num_blocks):
        is_recurrent = layer % 2 == 0 and layer < shape.n_layer
        tensors |= _block(layer, shape, matrix, state_size if is_recurrent else None)
    metadata: dict[str, str | bool | int | Sequence[int]] = _sizes(shape, state_size)
    if has_mtp:
        last = f"blk.{shape.n_layer}.nextn"
        tensors[f"{last}.eh_proj.weight"] = matrix(shape.n_embd, 2 * shape.n_embd)
        tensors |= {f"{last}.{name}.weight": _ones(shape.n_embd) for name in ("enorm", "hnorm")}
        metadata["qwen35.nextn_predict_layers"] = 1
    return TinyModel(
        byte_vocabulary(),
        replace(shape, n_layer=num_blocks),
        tensors,
        architecture="qwen35",
        quantized=quantized,
        metadata=metadata,
    )


def _sizes(shape: Shape, state_size: int) -> dict[str, str | bool | int | Sequence[int]]:
    quarter = shape.head_dim // 8
    return {
        "qwen35.attention.key_length": shape.head_dim,
        "qwen35.attention.value_length": shape.head_dim,
        "qwen35.full_attention_interval": 2,
        "qwen35.rope.dimension_sections": [2 * quarter, quarter, quarter, 0],
        "qwen35.ssm.conv_kernel": 4,
        "qwen35.ssm.inner_size": _HEADS * state_size,
        "qwen35.ssm.state_size": state_size,
        "qwen35.ssm.time_step_rank": _HEADS,
        "qwen35.ssm.group_count": _GROUPS,
    }


def _block(layer: int, shape: Shape, matrix: Matrix, state_size: int | None) -> dict[str, Floats]:
    """state_size: None where it has attention."""
    name = f"blk.{layer}"
    tensors = _layer(layer, shape, matrix)
    tensors[f"{name}.post_attention_norm.weight"] = tensors.pop(f"{name}.ffn_norm.weight")
    if state_size is not None:
        for unused in ("attn_q", "attn_k", "attn_v", "attn_output"):
            del tensors[f"{name}.{unused}.weight"]
        mixer = _delta_net(shape.n_embd, state_size, matrix)
        return tensors | {f"{name}.{key}": tensor for key, tensor in mixer.items()}
    tensors[f"{name}.attn_q.weight"] = matrix(2 * shape.n_embd, shape.n_embd)  # half of it is a gate
    return tensors | {f"{name}.{norm}.weight": _ones(shape.head_dim) for norm in ("attn_q_norm", "attn_k_norm")}


def _delta_net(n_embd: int, state_size: int, matrix: Matrix) -> dict[str, Floats]:
    values = _HEADS * state_size
    mixed = 2 * _GROUPS * state_size + values
    return {
        "attn_qkv.weight": matrix(mixed, n_embd),
        "attn_gate.weight": matrix(values, n_embd),
        "ssm_conv1d.weight": matrix(mixed, 4),
        "ssm_beta.weight": matrix(_HEADS, n_embd),
        "ssm_alpha.weight": matrix(_HEADS, n_embd),
        "ssm_out.weight": matrix(n_embd, values),
        "ssm_norm.weight": _ones(state_size),
        "ssm_dt.bias": np.zeros(_HEADS, np.float32),
        "ssm_a": -_ones(_HEADS),
    }


def _ones(size: int) -> Floats:
    return np.ones(size, np.float32)
