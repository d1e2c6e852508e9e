"""The context that texts are embedded in."""

from __future__ import annotations

from homespec.engine.embedding.kind import EmbeddingKind
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.engine.threads import default_threads
from homespec.errors import ModelUnsupported
from homespec.frames import EngineSettings, allocated_ctx

MAX_TOKENS = 2048
"""Of one text, unless more is asked for of a model that was made to embed: llama.cpp keeps a row of logits for each of
its tokens, and a model that sees a text as a whole runs it in one call."""
CHUNK = 64
"""Tokens of a call where a text can be run in chunks: its streams go on between two of them."""


def embedding_params(settings: EngineSettings, model: Model, kind: EmbeddingKind) -> ContextParams:
    """Raises ModelUnsupported for a context that the model was not trained for: it has no positions beyond it."""
    n_ctx_train = model.n_ctx_train
    # The context of a model that generates is its conversations', not that of its texts.
    asked = settings.n_ctx if kind.embeds_only else None
    if asked is not None and asked > allocated_ctx(n_ctx_train):
        raise ModelUnsupported(
            f"ctx = {asked} is more than the {n_ctx_train} tokens that {model.path} was trained for, and an "
            f"embedding model cannot go beyond them; use --ctx {n_ctx_train}, or leave it at auto"
        )
    n_ctx = min(asked or MAX_TOKENS, n_ctx_train)
    rows = min(CHUNK, n_ctx) if kind.is_causal else n_ctx
    return ContextParams(
        n_ctx=n_ctx,
        n_seq_max=1,
        n_outputs_max=rows,
        n_batch=rows,
        n_threads=settings.threads or default_threads(),
        kv_type="f16" if settings.kv_type == "auto" else settings.kv_type,
        flash_attention=settings.flash_attention,
        is_causal=kind.is_causal,
        gives_states=True,
    )
