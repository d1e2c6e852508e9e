"""Vectors from real calls of the library."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import llama_cpp.llama_cpp as C
import numpy as np
import pytest

from homespec.engine.embedding.embedder import EmbeddingJob
from homespec.engine.embedding.params import CHUNK
from homespec.engine.surveyor import answer
from homespec.errors import ModelUnsupported, RequestError
from homespec.footprint import Sized, SizeTarget
from homespec.frames import Embed, Embedded, Refused
from homespec.status import RequestPhase
from tests.engine.embedding.conftest import Embedding, Floats, Open, embedding
from tests.kits import embedding_kit
from tests.kits.engines import ask, running
from tests.kits.gguf_kit import BOS, EOS, table_llama
from tests.kits.models import Models

pytestmark = pytest.mark.real

TEXT = "the quick brown fox jumps over the lazy dog"
LONG = "abcdefghij" * (CHUNK // 10 + 3)


def pooled_by_the_library(path: Path, token_ids: list[int]) -> Floats:
    """llama.cpp's own pooling, by what the file says, in one call."""
    model = C.llama_model_load_from_file(bytes(path), C.llama_model_default_params())
    params = C.llama_context_default_params()
    params.embeddings, params.n_ctx, params.n_batch, params.n_ubatch = True, 512, 512, 512
    context = C.llama_init_from_model(model, params)
    tokens = (C.llama_token * len(token_ids))(*token_ids)
    batch = C.llama_batch_get_one(tokens, len(token_ids))
    assert C.llama_decode(context, batch) == 0
    width = C.llama_model_n_embd(model)
    vector = np.ctypeslib.as_array(C.llama_get_embeddings_seq(context, 0), (width,)).copy()
    C.llama_free(context)
    C.llama_model_free(model)
    unit: Floats = vector / np.linalg.norm(vector)
    return unit


@pytest.mark.parametrize("pooling", [embedding_kit.MEAN, embedding_kit.CLS, embedding_kit.LAST])
@pytest.mark.parametrize("family", ["bert", "causal"])
def test_the_vector_is_the_library_s_own(models: Models, opened: Open, family: str, pooling: int) -> None:
    path = models.write(f"{family}-{pooling}", getattr(embedding_kit, family)(models.byte_vocabulary, 1, pooling))
    engine = opened(path)
    assert len(LONG) > CHUNK
    for text in (TEXT, LONG):
        token_ids = engine.engine.vocab.tokenize(text, add_special=True, parse_special=False)
        [vector] = engine.vectors(text)
        # In chunks, keys and values go through a cache in half precision.
        assert float(vector @ pooled_by_the_library(path, token_ids)) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("pooling", "expected"), [("mean", {"a": 2, "b": 1}), ("cls", {"a": 1}), ("last", {"b": 1})])
def test_states_of_a_model_that_generates(models: Models, pooling: str, expected: dict[str, int]) -> None:
    """The state behind each token of a table model is the token's own direction."""
    with running(models.letters, embeddings=pooling) as driver:
        assert driver.engine.texts is not None
        texts, _ = driver.engine.texts.read(Embed("e", ["aab"]))
        driver.scheduler.embed(EmbeddingJob("e", texts))
        driver.drain()
        [frame] = [each for each in driver.frames if isinstance(each, Embedded)]
    vector = np.frombuffer(frame.vectors[0], "<f4")
    ideal = np.zeros_like(vector)
    for char, count in expected.items():
        ideal[ord(char)] = count
    np.testing.assert_allclose(vector, ideal / np.linalg.norm(ideal), atol=2e-3)
    assert frame.num_tokens == 3


@pytest.fixture(scope="module")
def bert(models: Models) -> Iterator[Embedding]:
    with embedding(models.bert) as engine:
        yield engine


def test_the_same_bits_alone_in_a_batch_and_between_others(bert: Embedding) -> None:
    [alone] = bert.vectors(TEXT)
    first, batched, _ = bert.vectors("hello", TEXT, "a" * 100)
    assert batched.tobytes() == alone.tobytes()
    assert first.tobytes() != alone.tobytes()
    ours, theirs = bert.submit("x", TEXT, "y"), bert.submit("z", TEXT)
    bert.drain()
    for request_id in (ours, theirs):
        assert bert.answer(request_id).vectors[1] == alone.tobytes()


def test_requests_take_turns(bert: Embedding) -> None:
    long, short = bert.submit(*["text"] * 5), bert.submit("text")
    for _ in range(2):
        bert.engine.scheduler.step()
    assert bert.answer(short)
    [status] = bert.engine.scheduler.snapshot().requests
    assert (status.id, status.phase, status.num_prefilled_tokens) == (long, RequestPhase.PREFILL, 6)
    bert.drain()


def test_a_cancelled_request_leaves_nothing_behind(models: Models, opened: Open) -> None:
    engine = opened(models.write("causal-3", embedding_kit.causal(models.byte_vocabulary, 1)))
    [expected] = engine.vectors(LONG)
    gone = engine.submit("z" * 200)
    engine.engine.scheduler.step()
    engine.engine.scheduler.cancel(gone)
    engine.engine.scheduler.cancel("never heard of")
    assert not engine.engine.scheduler.busy
    [vector] = engine.vectors(LONG)
    assert vector.tobytes() == expected.tobytes()


def test_texts_are_bounded_by_what_the_model_was_trained_on(bert: Embedding) -> None:
    limit = embedding_kit.SHAPE.n_ctx_train
    long = [7] * (limit + 1)
    bert.vectors([7] * limit)
    with pytest.raises(RequestError, match=f"has {limit + 1} tokens and the model takes {limit}") as caught:
        bert.submit("short", long)
    assert caught.value.info.code == "context_length_exceeded"
    request = Embed("e", ["a" * 500, "b"], truncate=True)
    texts, notices = bert.engine.texts.read(request)
    assert [len(text) for text in texts] == [limit, 3]
    assert (texts[0][0], texts[0][-1]) == (BOS, EOS)
    assert notices == (f"input[0] was cut to {limit} tokens",)


@pytest.mark.parametrize(
    ("inputs", "fields", "param"),
    [
        (["a", []], {}, "input"),
        ([[1, 288]], {}, "input"),
        ([[-1]], {}, "input"),
        (["a"], {"dimensions": 65}, "dimensions"),
        (["a"] * (32 * 1024 * 1024 // 256 + 1), {}, "input"),
    ],
)
def test_what_cannot_be_embedded_is_refused(
    bert: Embedding, inputs: list[str], fields: dict[str, int], param: str
) -> None:
    with pytest.raises(RequestError) as caught:
        bert.submit(*inputs, **fields)
    assert caught.value.info.param == param


def test_control_tokens_in_a_text_stay_text(bert: Embedding) -> None:
    [tokens], _ = bert.engine.texts.read(Embed("e", ["<|eos|>"]))
    assert tokens == [BOS, *b"<|eos|>", EOS]


def test_a_vector_without_direction_is_refused(models: Models, opened: Open) -> None:
    silent = table_llama(np.zeros((288, 288), np.float32))
    tensors = {**silent.tensors, "token_embd.weight": np.zeros((288, 288), np.float32)}
    path = models.write("silent", type(silent)(silent.vocabulary, silent.shape, tensors, quantized=False))
    with running(path, embeddings="mean") as driver:
        driver.scheduler.embed(EmbeddingJob("e", [[1, 2]]))
        driver.drain()
    [refused] = [each for each in driver.frames if isinstance(each, Refused)]
    assert (refused.error.status, refused.error.code) == (500, "embedding_not_finite")


def test_an_answer_is_the_same_while_texts_are_embedded(models: Models) -> None:
    with running(models.random, embeddings="mean") as driver:
        [plain] = driver.run(ask("some prompt", max_tokens=24))
        driver.forget_prefixes()
        driver.scheduler.embed(EmbeddingJob("e", [list(range(200))] * 3))
        [beside] = driver.run(ask("some prompt", max_tokens=24))
        assert beside.token_ids == plain.token_ids
        assert len([each for each in driver.frames if isinstance(each, Embedded)]) == 1


def test_an_embedding_model_has_no_positions_beyond_its_training(models: Models) -> None:
    with pytest.raises(ModelUnsupported, match="ctx = 512 is more than the 192 tokens"):
        Embedding(models.bert, n_ctx=512)
    with embedding(models.bert, n_ctx=128) as engine:
        assert engine.engine.texts.max_tokens == 128


def test_a_request_to_generate_is_refused(bert: Embedding) -> None:
    with pytest.raises(RequestError, match="embedding model"):
        bert.engine.refuse()


@pytest.mark.parametrize("pooling", ["auto", "mean"])
def test_the_estimate_counts_what_embedding_takes(models: Models, pooling: str) -> None:
    path = models.bert if pooling == "auto" else models.demo
    with running(models.demo, embeddings=pooling, n_ctx=1024) if pooling == "mean" else embedding(path) as engine:
        logged = engine.engine.scheduler.snapshot().target_memory
        sized = answer(SizeTarget(engine.settings))
    assert isinstance(sized, Sized)
    expected = sized.footprint.at_load
    assert expected.total_bytes == pytest.approx(logged.total_bytes, rel=0.01)
    assert sized.footprint.growth_bytes > 0
