"""What a model file says of embedding texts: whether that is all it can do, and how its states become one vector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from homespec.engine.embedding.pooling import Pooling
from homespec.engine.llama.gguf import GgufHeader, open_header
from homespec.errors import ModelUnsupported

AUTO = "auto"
# llama_pooling_type in llama.h.
_NONE, _RANK = 0, 4
_POOLINGS = {1: Pooling.MEAN, 2: Pooling.CLS, 3: Pooling.LAST}
_BIDIRECTIONAL = frozenset({"gemma-embedding"})
"""Architectures that llama.cpp runs without a causal mask though their headers do not ask for it."""
_DIFFUSION = frozenset({"dream", "llada", "llada-moe", "rnd1"})


@dataclass(frozen=True, slots=True)
class EmbeddingKind:
    """How a model embeds."""

    pooling: Pooling
    is_causal: bool
    """A text can be run in chunks; else every token sees all others, and it takes one call."""
    embeds_only: bool
    """It was made for this, and what it would generate is of no use."""


def embeds_alone(header: GgufHeader) -> bool:
    """Whether a model was made to embed: its header names a pooling, or its tokens see the ones behind them."""
    return header.get(f"{header.architecture}.pooling_type") not in (None, _NONE) or not _is_causal(header)


def _is_causal(header: GgufHeader) -> bool:
    architecture = header.architecture
    return header.get(f"{architecture}.attention.causal") is not False and architecture not in _BIDIRECTIONAL


def embedding_kind(path: Path, asked: str) -> EmbeddingKind | None:
    """Of the model file, with the pooling that the configuration asks for, or `auto`. None: it generates text and is
    not to embed.

    Raises ModelNotFound, ModelCorrupt, and ModelUnsupported for a model that gives neither text nor vectors.
    """
    with open_header(path) as header:
        architecture = header.architecture
        stored = header.get(f"{architecture}.pooling_type")
        is_causal, embeds_only = _is_causal(header), embeds_alone(header)
    if architecture in _DIFFUSION:
        raise ModelUnsupported(
            f"{path} is a diffusion model ({architecture}); homespec serves models that go on token "
            "by token, and embedding models"
        )
    if asked != AUTO:
        return EmbeddingKind(Pooling(asked), is_causal, embeds_only)
    if not embeds_only:
        return None
    if stored == _RANK:
        raise ModelUnsupported(
            f"{path} is a reranker: it scores pairs of texts, which homespec does not serve; use an embedding model"
        )
    pooling = _POOLINGS.get(stored) if isinstance(stored, int) else None
    if pooling is None:
        raise ModelUnsupported(
            f"{path} is an embedding model whose file names no pooling (pooling_type = {stored}); "
            f"set embeddings to one of {', '.join(Pooling)}, as its model card says"
        )
    return EmbeddingKind(pooling, is_causal, embeds_only)
