"""Which files are embedding models, and how they pool."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homespec.engine.embedding.kind import EmbeddingKind, embedding_kind
from homespec.engine.embedding.pooling import Pooling
from homespec.errors import ModelUnsupported
from tests.kits import embedding_kit
from tests.kits.gguf_kit import TinyModel, random_llama
from tests.kits.models import Models

pytestmark = pytest.mark.real


def kind_of(models: Models, name: str, model: TinyModel, asked: str = "auto") -> EmbeddingKind | None:
    return embedding_kind(models.write(name, model), asked)


def test_a_model_that_generates_embeds_only_when_it_is_told_to(models: Models) -> None:
    assert embedding_kind(models.random, "auto") is None
    assert embedding_kind(models.random, "last") == EmbeddingKind(Pooling.LAST, is_causal=True, embeds_only=False)


@pytest.mark.parametrize(
    ("stored", "pooling"),
    [(embedding_kit.MEAN, Pooling.MEAN), (embedding_kit.CLS, Pooling.CLS), (embedding_kit.LAST, Pooling.LAST)],
)
def test_an_embedding_model_pools_as_its_file_says(models: Models, stored: int, pooling: Pooling) -> None:
    vocabulary = models.byte_vocabulary
    bert = kind_of(models, f"bert-{stored}", embedding_kit.bert(vocabulary, 1, stored))
    assert bert == EmbeddingKind(pooling, is_causal=False, embeds_only=True)
    llama = kind_of(models, f"causal-{stored}", embedding_kit.causal(vocabulary, 1, stored))
    assert llama == EmbeddingKind(pooling, is_causal=True, embeds_only=True)


def test_the_configuration_may_say_otherwise(models: Models) -> None:
    assert embedding_kind(models.bert, "cls") == EmbeddingKind(Pooling.CLS, is_causal=False, embeds_only=True)


def test_without_a_pooling_the_file_is_refused_with_the_remedy(models: Models) -> None:
    silent = embedding_kit.bert(models.byte_vocabulary, 1, None)
    with pytest.raises(ModelUnsupported, match="set embeddings to one of mean, cls, last"):
        kind_of(models, "bert-silent", silent)
    assert kind_of(models, "bert-silent", silent, "mean") is not None


def test_what_gives_neither_text_nor_vectors_is_refused(models: Models) -> None:
    with pytest.raises(ModelUnsupported, match="reranker"):
        kind_of(models, "reranker", embedding_kit.bert(models.byte_vocabulary, 1, embedding_kit.RANK))
    diffusion = replace(random_llama(models.byte_vocabulary, 1), architecture="dream")
    with pytest.raises(ModelUnsupported, match="diffusion"):
        kind_of(models, "diffusion", diffusion)
