"""Heads made for tests, and targets for them.

Random weights show that a head cannot change an answer. Crafted ones make acceptance a known number: the layers of the
target add nothing, so the next token is a function of the last one, and a head passes on what it is given.
Embeddings are random directions with one constant component, so that attention can be aimed by position alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tests.kits.gguf_kit import (
    MASK,
    NUM_TOKENS,
    Floats,
    NextToken,
    Shape,
    TinyModel,
    _layer,
    byte_vocabulary,
    random_llama,
)
from tests.kits.hybrid_kit import qwen35

WIDTH = 64
TAPPED = (1, 2, 3)
BLOCK = 6
TOP_K = 7
"""Candidates per row of a head with a selector: their pairs must fit into a state."""
LAG = 11
"""Tokens that the crafted DFlash head looks back by: longer than its block, and than 2π."""
WINDOW = 32
"""Positions that a head with a sliding window sees."""

Keys = Mapping[str, str | bool | int | Sequence[int]]

_SHAPE = Shape(n_embd=WIDTH, n_layer=4, n_head=4, n_head_kv=4, n_ff=64)
_MTP_BLOCK = 2
_ONE_LAYER = replace(_SHAPE, n_layer=1)
_TAPS, _GROUP = 3, 16
"""Of the convolutions that come with a selector."""
_HEAD_DIM = _SHAPE.head_dim
_MASK_KEY = {"tokenizer.ggml.mask_token_id": MASK}
_SLIDING_KEYS: Keys = {
    "dflash.attention.sliding_window": WINDOW,
    "dflash.attention.sliding_window_pattern": [True],
}


def dense_markov(next_token: NextToken) -> TinyModel:
    """A llama of four layers that says `next_token[t]` after t."""
    return TinyModel(byte_vocabulary(), _SHAPE, {**_ends(next_token), **_layers(_SHAPE, _zeros)})


def deep_random(seed: int) -> TinyModel:
    """A llama whose every token depends on all before it, with as many layers as the heads read."""
    return random_llama(byte_vocabulary(), seed, _SHAPE)


def mtp_markov(next_token: NextToken, drafted: NextToken | None = None) -> TinyModel:
    """A GLM-4.5 that says `next_token[t]` after t, with an MTP block that says `drafted[t]`."""
    more = {
        **_ends(next_token),
        f"blk.{_MTP_BLOCK}.nextn.eh_proj.weight": np.hstack([_eye(), _zeros(WIDTH, WIDTH)]),
        f"blk.{_MTP_BLOCK}.nextn.shared_head_head.weight": _output(next_token if drafted is None else drafted),
    }
    return _mtp(_zeros, more)


def mtp_alone(next_token: NextToken) -> TinyModel:
    """The MTP block of `mtp_markov` in a file without the trunk."""
    model = mtp_markov(next_token)
    tensors = {name: tensor for name, tensor in model.tensors.items() if not name.startswith(("blk.0", "blk.1"))}
    return replace(model, tensors=tensors)


def hybrid_mtp_markov(next_token: NextToken) -> TinyModel:
    """A Qwen3.5 that says `next_token[t]` after t: a recurrent layer, one with attention, and an MTP block."""
    model = qwen35(replace(_SHAPE, n_layer=_MTP_BLOCK), _ends(next_token), _zeros, has_mtp=True)
    passes_on = {f"blk.{_MTP_BLOCK}.nextn.eh_proj.weight": np.hstack([_eye(), _zeros(WIDTH, WIDTH)])}
    return replace(model, tensors={**model.tensors, **passes_on})


def random_mtp(seed: int) -> TinyModel:
    matrix = _random(seed)
    more = {name: matrix(NUM_TOKENS, WIDTH) for name in ("token_embd.weight", "output.weight")}
    more[f"blk.{_MTP_BLOCK}.nextn.eh_proj.weight"] = matrix(WIDTH, 2 * WIDTH)
    return _mtp(matrix, {**more, "output_norm.weight": _ones()})


def eagle3_markov(next_token: NextToken, *, layers: Sequence[int] = TAPPED) -> TinyModel:
    """An EAGLE-3 head that says `next_token[t]` after t, with a draft vocabulary of the bytes in reverse order.

    Its attention sees little but the row itself: queries and keys are the token's direction, four times as long.
    """
    both = np.hstack([_eye(), _zeros(WIDTH, WIDTH)])
    tensors = _eagle3_tensors(lambda rows, columns: _zeros(rows, columns))
    tensors |= {
        "output.weight": _output(next_token)[_reversed_bytes()],
        "d2t": _reversed_bytes(),
        "blk.0.attn_norm_2.weight": np.zeros(WIDTH, np.float32),
        "blk.0.attn_q.weight": both * np.float32(4),
        "blk.0.attn_k.weight": both * np.float32(4),
        "blk.0.attn_v.weight": both,
        "blk.0.attn_output.weight": _eye(),
    }
    return _eagle3(tensors, layers, norm_before_residual=True)


def random_eagle3(seed: int) -> TinyModel:
    matrix = _random(seed)
    tensors = {**_eagle3_tensors(matrix), "output.weight": matrix(NUM_TOKENS, WIDTH)}
    return _eagle3(tensors, TAPPED, norm_before_residual=False)


def dflash_lag(
    drafted: NextToken, *, has_mrope: bool = False, is_sliding: bool = False, layers: Sequence[int] = TAPPED
) -> TinyModel:
    """A DFlash head whose masked rows say `drafted[t]` for the token t that lies `LAG` positions back.

    Keys point the same way whatever the token; queries are turned back by `LAG` positions. So a state that was written
    at a wrong position, or not taken back, is read in the place of the right one.

    is_sliding: it sees the last `WINDOW` positions.
    """
    tensors = _dflash_tensors(_zeros)
    tensors |= {
        "output.weight": _output(drafted),
        "fc.weight": np.hstack([_eye(), *[_zeros(WIDTH, WIDTH)] * (len(layers) - 1)]),
        "blk.0.attn_q.weight": _aimed(-LAG),
        "blk.0.attn_k.weight": _aimed(0),
        "blk.0.attn_v.weight": _eye(),
        "blk.0.attn_output.weight": _eye(),
        "blk.0.attn_q_norm.weight": np.full(_HEAD_DIM, 8, np.float32),
        "blk.0.attn_k_norm.weight": np.full(_HEAD_DIM, 8, np.float32),
    }
    more: Keys = {"dflash.rope.dimension_sections": [_HEAD_DIM // 2, 0, 0, 0]} if has_mrope else {}
    return _dflash(tensors, layers, {**more, **(_SLIDING_KEYS if is_sliding else {})})


def random_dflash(seed: int, *, is_sliding: bool = False) -> TinyModel:
    return _dflash(_dflash_tensors(_random(seed)), TAPPED, _SLIDING_KEYS if is_sliding else {})


def selector_lag(first_choice: NextToken, next_token: NextToken) -> TinyModel:
    """A DFlash head whose masked rows find `first_choice[t]` likeliest and t itself next, t being `LAG` positions back.

    Its selector knows that `next_token[t]` follows t.
    """
    model = dflash_lag(first_choice)
    tensors = dict(model.tensors)
    tensors["output.weight"] = tensors["output.weight"] + np.float32(0.6) * _output(np.arange(NUM_TOKENS))
    follows = _zeros(NUM_TOKENS, NUM_TOKENS)
    follows[next_token, np.arange(NUM_TOKENS)] = 64
    return _with_selector(
        replace(model, tensors=tensors), np.eye(NUM_TOKENS, dtype=np.float32), follows, _aimed_at_all()
    )


def random_selector(seed: int) -> TinyModel:
    matrix = _random(seed)
    before, behind = matrix(NUM_TOKENS, NUM_TOKENS), matrix(NUM_TOKENS, NUM_TOKENS)
    return _with_selector(random_dflash(seed), before, behind, matrix(NUM_TOKENS, WIDTH))


def _with_selector(model: TinyModel, before: Floats, behind: Floats, gate: Floats) -> TinyModel:
    """Its convolutions pass everything on as it is."""
    base = np.zeros((2, _TAPS, WIDTH), np.float32)
    base[:, 0] = 1
    tensors = {
        **model.tensors,
        "selector_predecessor.weight": before,
        "selector_successor.weight": behind,
        "selector_hidden.weight": gate,
    }
    for place in ("attn", "ffn"):
        tensors[f"blk.0.{place}_conv_base"] = base
        tensors[f"blk.0.{place}_conv_proj.weight"] = _zeros(2 * _TAPS * WIDTH // _GROUP, WIDTH)
    keys = {
        "conv_kernel_size": _TAPS,
        "conv_group_size": _GROUP,
        "selector_rank": NUM_TOKENS,
        "selector_top_k": TOP_K,
    }
    metadata = {**model.metadata, **{f"dflash.{key}": value for key, value in keys.items()}}
    return replace(model, tensors=tensors, metadata=metadata, in_f32=("conv_base",))


def _aimed_at_all() -> Floats:
    """The constant component of a state, for every rank."""
    gate = _zeros(NUM_TOKENS, WIDTH)
    gate[:, 0] = 1
    return gate


def dspark_markov(
    next_token: NextToken, *, from_anchor: bool = True, confidence: float = 0.9, unsure_behind: Sequence[int] = ()
) -> TinyModel:
    """A DSpark head that says `next_token[t]` after t, through its Markov head alone.

    It is as confident as told, but behind some tokens, where it is not at all.
    """
    table = np.zeros((NUM_TOKENS, NUM_TOKENS), np.float32)
    table[next_token, np.arange(NUM_TOKENS)] = 8
    doubts = _zeros(1, WIDTH + NUM_TOKENS)
    doubts[0, WIDTH + np.asarray(unsure_behind, np.intp)] = -8
    tensors = _dflash_tensors(_zeros)
    tensors |= {
        "output_norm.weight": np.zeros(WIDTH, np.float32),
        "markov_w1.weight": np.eye(NUM_TOKENS, dtype=np.float32),
        "markov_w2.weight": table,
        "conf_proj.weight": doubts,
        "conf_proj.bias": np.array([np.log(confidence / (1 - confidence))], np.float32),
    }
    return _dflash(tensors, TAPPED, _dspark_keys(from_anchor))


def random_dspark(seed: int, *, from_anchor: bool = True) -> TinyModel:
    matrix = _random(seed)
    tensors = {
        **_dflash_tensors(matrix),
        "markov_w1.weight": matrix(NUM_TOKENS, 32),
        "markov_w2.weight": matrix(NUM_TOKENS, 32),
        "conf_proj.weight": matrix(1, WIDTH + 32),
        "conf_proj.bias": np.ones(1, np.float32),
    }
    return _dflash(tensors, TAPPED, _dspark_keys(from_anchor))


def implied_acceptance(
    truth: Sequence[int], start: int, limit: int, draft: Callable[[int, int], Sequence[int]]
) -> tuple[int, int]:
    """Drafted and accepted tokens of a greedy answer `truth[start:]`, whose first token comes out of the prompt pass.

    draft(n, count): what is proposed when `truth[:n]` is known.
    """
    drafted = accepted = 0
    n = start + 1
    while n < len(truth):
        proposed = draft(n, min(limit, len(truth) - n - 1))
        right = 0
        while right < len(proposed) and proposed[right] == truth[n + right]:
            right += 1
        drafted, accepted, n = drafted + len(proposed), accepted + right, n + right + 1
    return drafted, accepted


def _embedding() -> Floats:
    """Rows of length sqrt(WIDTH); component 0 is the same in all, and the mask has no other."""
    rows = np.random.default_rng(1).standard_normal((NUM_TOKENS, WIDTH)).astype(np.float32)
    rows[:, 0] = 4
    rows[MASK, 1:] = 0
    rows *= np.float32(np.sqrt(WIDTH)) / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _output(next_token: NextToken) -> Floats:
    """The largest logit after t is that of `next_token[t]`."""
    directions = _embedding()
    directions[:, 0] = 0
    table = np.zeros_like(directions)
    np.add.at(table, next_token, directions * np.float32(0.25))
    return table


def _ends(next_token: NextToken) -> dict[str, Floats]:
    return {
        "token_embd.weight": _embedding(),
        "output.weight": _output(next_token),
        "output_norm.weight": _ones(),
    }


def _layers(shape: Shape, matrix: Callable[[int, int], Floats]) -> dict[str, Floats]:
    return {name: tensor for layer in range(shape.n_layer) for name, tensor in _layer(layer, shape, matrix).items()}


def _mtp(matrix: Callable[[int, int], Floats], more: dict[str, Floats]) -> TinyModel:
    """Two dense layers and one MTP block, which llama.cpp builds with experts only."""
    shape = replace(_SHAPE, n_layer=_MTP_BLOCK + 1)
    tensors = {**_layers(shape, matrix), **more}
    last = f"blk.{_MTP_BLOCK}"
    for layer in range(shape.n_layer):
        tensors[f"blk.{layer}.post_attention_norm.weight"] = tensors.pop(f"blk.{layer}.ffn_norm.weight")
    for name in ("ffn_gate", "ffn_up", "ffn_down"):
        whole = tensors.pop(f"{last}.{name}.weight")
        tensors[f"{last}.{name}_exps.weight"] = np.stack([whole, whole])
        tensors[f"{last}.{name}_shexp.weight"] = whole
    tensors[f"{last}.ffn_gate_inp.weight"] = matrix(2, WIDTH)
    tensors[f"{last}.exp_probs_b.bias"] = np.zeros(2, np.float32)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        tensors[f"{last}.nextn.{name}.weight"] = _ones()
    keys = {
        "nextn_predict_layers": 1,
        "leading_dense_block_count": _MTP_BLOCK,
        "expert_count": 2,
        "expert_used_count": 1,
        "expert_shared_count": 1,
        "expert_feed_forward_length": _SHAPE.n_ff,
    }
    metadata = {f"glm4moe.{key}": value for key, value in keys.items()}
    return TinyModel(byte_vocabulary(), shape, tensors, architecture="glm4moe", metadata=metadata)


def _eagle3_tensors(matrix: Callable[[int, int], Floats]) -> dict[str, Floats]:
    tensors = _layer(0, _ONE_LAYER, matrix)
    for name in ("attn_q", "attn_k", "attn_v"):
        tensors[f"blk.0.{name}.weight"] = matrix(WIDTH, 2 * WIDTH)
    return {
        **tensors,
        "blk.0.attn_norm_2.weight": _ones(),
        "output_norm.weight": _ones(),
        "fc.weight": matrix(WIDTH, len(TAPPED) * WIDTH),
    }


def _eagle3(tensors: dict[str, Floats], layers: Sequence[int], *, norm_before_residual: bool) -> TinyModel:
    metadata: Keys = {
        "eagle3.target_layers": list(layers),
        "eagle3.target_hidden_size": WIDTH,
        "eagle3.norm_before_residual": norm_before_residual,
    }
    return TinyModel(byte_vocabulary(), _ONE_LAYER, tensors, architecture="eagle3", metadata=metadata)


def _dflash_tensors(matrix: Callable[[int, int], Floats]) -> dict[str, Floats]:
    norms = {f"blk.0.{name}.weight": np.ones(_HEAD_DIM, np.float32) for name in ("attn_q_norm", "attn_k_norm")}
    return {
        **_layer(0, _ONE_LAYER, matrix),
        **norms,
        "output_norm.weight": _ones(),
        "enc.output_norm.weight": _ones(),
        "fc.weight": matrix(WIDTH, len(TAPPED) * WIDTH),
    }


def _dflash(tensors: dict[str, Floats], layers: Sequence[int], more: Keys) -> TinyModel:
    metadata: Keys = {"dflash.target_layers": list(layers), "dflash.block_size": BLOCK, **_MASK_KEY, **more}
    return TinyModel(byte_vocabulary(), _ONE_LAYER, tensors, architecture="dflash", metadata=metadata)


def _dspark_keys(from_anchor: bool) -> Keys:
    return {"dflash.sample_from_anchor": from_anchor, "dflash.has_confidence_head": True}


def _aimed(turn: int) -> Floats:
    """For every head, the constant component as a vector that RoPE (NEOX pairs, base 10 000) turns by `turn`."""
    angles = turn * 10000.0 ** (-2 * np.arange(_HEAD_DIM // 2) / _HEAD_DIM)
    matrix = _zeros(WIDTH, WIDTH)
    matrix[:, 0] = np.tile(np.concatenate([np.cos(angles), np.sin(angles)]), _SHAPE.n_head)
    return matrix


def _random(seed: int) -> Callable[[int, int], Floats]:
    rng = np.random.default_rng(seed)
    return lambda rows, columns: (
        rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(2 / np.sqrt(columns))
    )


def _reversed_bytes() -> np.ndarray:
    return np.arange(256, dtype=np.int64)[::-1].copy()


def _zeros(rows: int, columns: int) -> Floats:
    return np.zeros((rows, columns), np.float32)


def _ones() -> Floats:
    return np.ones(WIDTH, np.float32)


def _eye() -> Floats:
    return np.eye(WIDTH, dtype=np.float32)
