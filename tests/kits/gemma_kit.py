"""A Gemma 4 and its assistant, which reads the target's KV cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tests.kits.gguf_kit import NUM_TOKENS, Floats, NextToken, Shape, TinyModel, byte_vocabulary
from tests.kits.heads_kit import WIDTH, _embedding, _output, _random, _zeros

_Matrix = Callable[[int, int], Floats]

ASSISTANT_WIDTH = 96
"""llama.cpp wants it to differ from the target's."""
WINDOW = 64

_SHAPE = Shape(n_embd=WIDTH, n_layer=2, n_head=4, n_head_kv=2, n_ff=64)
_KV_HEADS, _HEAD_DIM = _SHAPE.n_head_kv, _SHAPE.head_dim


def gemma4_markov(next_token: NextToken) -> TinyModel:
    """Says `next_token[t]` after t."""
    return _gemma4(_zeros, _embedding(), _output(next_token))


def random_gemma4(seed: int) -> TinyModel:
    matrix = _random(seed)
    return _gemma4(matrix, matrix(NUM_TOKENS, WIDTH), matrix(NUM_TOKENS, WIDTH))


def assistant_markov(next_token: NextToken) -> TinyModel:
    """Says `next_token[t]` after t: it passes the target's embedding of the token on, and no state."""
    into = _zeros(ASSISTANT_WIDTH, 2 * WIDTH)
    into[:WIDTH, :WIDTH] = np.eye(WIDTH)
    output = _zeros(NUM_TOKENS, ASSISTANT_WIDTH)
    output[:, :WIDTH] = _output(next_token)
    return _assistant(_zeros, output, into, _zeros(WIDTH, ASSISTANT_WIDTH))


def random_assistant(seed: int) -> TinyModel:
    matrix = _random(seed)
    return _assistant(
        matrix,
        matrix(NUM_TOKENS, ASSISTANT_WIDTH),
        matrix(ASSISTANT_WIDTH, 2 * WIDTH),
        matrix(WIDTH, ASSISTANT_WIDTH),
    )


def _gemma4(matrix: _Matrix, embedding: Floats, output: Floats) -> TinyModel:
    tensors = {
        "token_embd.weight": embedding,
        "output.weight": output,
        "output_norm.weight": _ones(WIDTH),
        "rope_freqs.weight": _ones(_HEAD_DIM // 2),
    }
    for layer in range(_SHAPE.n_layer):
        tensors |= _block(layer, _SHAPE, matrix)
        tensors |= {
            f"blk.{layer}.attn_k.weight": matrix(_KV_HEADS * _HEAD_DIM, WIDTH),
            f"blk.{layer}.attn_v.weight": matrix(_KV_HEADS * _HEAD_DIM, WIDTH),
            f"blk.{layer}.attn_k_norm.weight": _ones(_HEAD_DIM),
        }
    keys = {**_keys("gemma4"), "gemma4.embedding_length_per_layer_input": 0}
    return TinyModel(byte_vocabulary(), _SHAPE, tensors, architecture="gemma4", metadata=keys)


def _assistant(matrix: _Matrix, output: Floats, into: Floats, back: Floats) -> TinyModel:
    tensors = {
        "token_embd.weight": output,
        "output_norm.weight": _ones(ASSISTANT_WIDTH),
        "rope_freqs.weight": _ones(_HEAD_DIM // 2),
        "nextn.pre_projection.weight": into,
        "nextn.post_projection.weight": back,
    }
    # As wide a head as the target's, whose keys it reads.
    shape = replace(_SHAPE, n_embd=ASSISTANT_WIDTH, n_head=ASSISTANT_WIDTH // _HEAD_DIM)
    for layer in range(_SHAPE.n_layer):
        tensors |= _block(layer, shape, matrix)
    name = "gemma4-assistant"
    keys = {**_keys(name), f"{name}.embedding_length_out": WIDTH, f"{name}.nextn_predict_layers": _SHAPE.n_layer}
    return TinyModel(byte_vocabulary(), shape, tensors, architecture=name, metadata=keys)


def _block(layer: int, shape: Shape, matrix: _Matrix) -> dict[str, Floats]:
    """What both have of a layer."""
    width, queries = shape.n_embd, shape.n_head * _HEAD_DIM
    tensors = {
        "attn_norm": _ones(width),
        "attn_q": matrix(queries, width),
        "attn_q_norm": _ones(_HEAD_DIM),
        "attn_output": matrix(width, queries),
        "post_attention_norm": _ones(width),
        "layer_output_scale": _ones(1),
        "ffn_norm": _ones(width),
        "ffn_gate": matrix(shape.n_ff, width),
        "ffn_up": matrix(shape.n_ff, width),
        "ffn_down": matrix(width, shape.n_ff),
        "post_ffw_norm": _ones(width),
    }
    return {f"blk.{layer}.{name}.weight": tensor for name, tensor in tensors.items()}


def _keys(architecture: str) -> dict[str, str | bool | int | float | Sequence[int]]:
    keys: dict[str, str | bool | int | float | Sequence[int]] = {
        "attention.sliding_window": WINDOW,
        "attention.sliding_window_pattern": [True, False],
        "attention.shared_kv_layers": 0,
        "rope.freq_base_swa": 10000.0,
        "rope.dimension_count_swa": _HEAD_DIM,
    }
    for name in ("key_length", "value_length"):
        keys |= {f"attention.{name}": _HEAD_DIM, f"attention.{name}_swa": _HEAD_DIM}
    return {f"{architecture}.{key}": value for key, value in keys.items()}


def _ones(size: int) -> Floats:
    return np.ones(size, np.float32)
