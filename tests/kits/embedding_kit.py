"""Models made to embed texts, with random weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.kits.gguf_kit import Floats, Shape, TinyModel, Vocabulary, random_llama

MEAN, CLS, LAST, RANK = 1, 2, 3, 4
"""llama_pooling_type."""
SHAPE = Shape(n_head_kv=4, n_ctx_train=192)


def bert(vocabulary: Vocabulary, seed: int, pooling: int | None = MEAN) -> TinyModel:
    """Every token sees all others; BOS and EOS around each text, as CLS and SEP are in real ones."""
    rng = np.random.default_rng(seed)

    def matrix(rows: int, columns: int) -> Floats:
        return rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(2 / np.sqrt(columns))

    width = SHAPE.n_embd
    tensors = {
        "token_embd.weight": matrix(len(vocabulary.texts), width),
        "position_embd.weight": matrix(SHAPE.n_ctx_train, width),
        **_norm("token_embd_norm"),
    }
    for layer in range(SHAPE.n_layer):
        name = f"blk.{layer}"
        tensors |= {
            f"{name}.{part}.weight": matrix(width, width) for part in ("attn_q", "attn_k", "attn_v", "attn_output")
        }
        tensors |= {
            f"{name}.ffn_up.weight": matrix(SHAPE.n_ff, width),
            f"{name}.ffn_down.weight": matrix(width, SHAPE.n_ff),
            **_norm(f"{name}.attn_output_norm"),
            **_norm(f"{name}.layer_output_norm"),
        }
    metadata: dict[str, bool | int | float] = {
        "bert.attention.layer_norm_epsilon": 1e-5,
        "bert.attention.causal": False,
        "tokenizer.ggml.token_type_count": 2,
    }
    if pooling is not None:
        metadata["bert.pooling_type"] = pooling
    closed = replace(vocabulary, adds_bos=True, adds_eos=True, template=None)
    return TinyModel(closed, SHAPE, tensors, architecture="bert", metadata=metadata)


def causal(vocabulary: Vocabulary, seed: int, pooling: int = LAST) -> TinyModel:
    """A llama that was made to embed: its header names a pooling."""
    return replace(random_llama(vocabulary, seed), metadata={"llama.pooling_type": pooling})


def _norm(name: str) -> dict[str, Floats]:
    width = SHAPE.n_embd
    return {f"{name}.weight": np.ones(width, np.float32), f"{name}.bias": np.zeros(width, np.float32)}
