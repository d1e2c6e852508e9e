"""Sizes without a dry run, from the header alone: what is left when llama.cpp cannot be asked. Rather too much than too
little: a failed measurement must never lower a number.
"""

from __future__ import annotations

from homespec.footprint import HOST, Footprint, ModelFacts, Shares
from homespec.frames import DEFAULT_MAX_CTX, EngineSettings, allocated_ctx
from homespec.stats import MAX_DRAFT_TOKENS

_ROWS_PER_SLOT = 1 + MAX_DRAFT_TOKENS
"""Rows with logits: a token and the longest draft."""
_FLOAT = 4
# Bytes per element: a block's size over its length (ggml-common.h).
_KV_BYTES = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
}


def kv_bytes(facts: ModelFacts, *, n_ctx: int, kv_type: str) -> int:
    """Keys and values of every layer over all cells: for a sliding window or a recurrent layer that is too much."""
    element = _KV_BYTES.get(kv_type, _KV_BYTES["f16"])
    return int(allocated_ctx(n_ctx) * facts.n_layer * facts.n_head_kv * sum(facts.head_widths) * element)


def computed(facts: ModelFacts, settings: EngineSettings, note: str, *, device: str | None) -> Footprint:
    """File size plus KV cache plus a bound for the graph; on `device` as far as the settings put layers there."""
    n_ctx = settings.n_ctx or min(facts.n_ctx_train or DEFAULT_MAX_CTX, DEFAULT_MAX_CTX)
    rows = settings.slots * _ROWS_PER_SLOT
    n_ubatch = max(settings.prefill_chunk, rows)
    logits = _FLOAT * facts.n_vocab * rows
    graph = _FLOAT * n_ubatch * (6 * facts.n_embd + 3 * facts.n_ff) + 2 * n_ctx * n_ubatch
    layers = facts.n_layer + 1
    on_device = 0 if device is None else min(layers, layers if settings.n_gpu_layers < 0 else settings.n_gpu_layers)
    share = on_device / layers
    kv = kv_bytes(facts, n_ctx=n_ctx, kv_type=settings.kv_type)
    devices = {
        HOST: Shares(
            weights_bytes=int(facts.file_bytes * (1 - share)),
            kv_bytes=int(kv * (1 - share)),
            compute_bytes=graph + logits,
            output_bytes=logits,
        )
    }
    if device is not None and on_device:
        devices[device] = Shares(int(facts.file_bytes * share), int(kv * share), graph + logits)
    return Footprint(devices, n_ctx=allocated_ctx(n_ctx), kv_type=settings.kv_type, measured=False, note=note)
