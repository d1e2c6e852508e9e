"""Embeddings over HTTP: the official clients against a model that does nothing else, and one that also talks."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import ollama
import openai
import pytest

from tests.daemons import GREEDY, HTTP_TIMEOUT_S, Daemon, eventually, fault, running
from tests.kits import embedding_kit
from tests.kits.models import Models

pytestmark = [pytest.mark.process, pytest.mark.real]

WIDTH = embedding_kit.SHAPE.n_embd
TEXT = "The boiler is in the cellar."
HI = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def bert(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Fitted to the box first, as every daemon is that was not told otherwise."""
    with running(tmp_path_factory.mktemp("bert"), str(models.bert), environment={"HOMESPEC_FIT": "auto"}) as daemon:
        pid = daemon.engine_pid
        yield daemon
        assert daemon.engine_pid == pid
        eventually(daemon.is_idle, "nothing is left over")
        assert "Traceback" not in daemon.log()
        assert "estimated at" not in str(daemon.status()["events"])


@pytest.fixture(scope="module")
def client(bert: Daemon) -> Iterator[openai.OpenAI]:
    with bert.client() as client:
        yield client


@pytest.fixture(scope="module")
def ollama_client(bert: Daemon) -> Iterator[ollama.Client]:
    with ollama.Client(host=bert.url, timeout=HTTP_TIMEOUT_S) as client:
        yield client


@pytest.fixture(scope="module")
def vector(client: openai.OpenAI) -> list[float]:
    return client.embeddings.create(model="default", input=TEXT).data[0].embedding


def test_a_vector(bert: Daemon, vector: list[float]) -> None:
    assert len(vector) == WIDTH
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
    answer = bert.post("/v1/embeddings", {"input": TEXT}).json()
    assert (answer["object"], answer["model"]) == ("list", "bert")
    assert answer["data"] == [{"object": "embedding", "index": 0, "embedding": vector}]
    num_tokens = len(TEXT) + 2
    assert answer["usage"] == {"prompt_tokens": num_tokens, "total_tokens": num_tokens}
    assert bert.post("/embeddings", {"input": TEXT}).json() == answer


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_every_encoding_is_the_same_vector(client: openai.OpenAI, vector: list[float], encoding: Any) -> None:
    asked = {} if encoding is None else {"encoding_format": encoding}
    [data] = client.embeddings.create(model="bert", input=TEXT, **asked).data
    got: Any = data.embedding
    if encoding == "base64":
        got = np.frombuffer(base64.b64decode(got), "<f4").tolist()
    assert got == vector


def test_texts_and_token_ids_alone_and_together(client: openai.OpenAI, vector: list[float]) -> None:
    ids = [256, *TEXT.encode(), 257]

    def ask(value: Any) -> list[list[float]]:
        answer = client.embeddings.create(model="bert", input=value)
        assert [each.index for each in answer.data] == list(range(len(answer.data)))
        return [each.embedding for each in answer.data]

    assert ask([TEXT]) == ask(ids) == ask([ids]) == [vector]
    first, second, third = ask(["other", TEXT, "third"])
    assert second == vector
    assert vector not in (first, third)


def test_fewer_dimensions(client: openai.OpenAI, vector: list[float]) -> None:
    [data] = client.embeddings.create(model="bert", input=TEXT, dimensions=8).data
    kept = np.array(vector[:8])
    np.testing.assert_allclose(data.embedding, kept / np.linalg.norm(kept), rtol=1e-5)


def test_ollama_s_client(ollama_client: ollama.Client, bert: Daemon, vector: list[float]) -> None:
    answer = ollama_client.embed("bert:latest", ["other", TEXT])
    assert list(answer.embeddings[1]) == vector
    assert answer.prompt_eval_count == len("other") + len(TEXT) + 4
    assert answer.total_duration
    assert list(ollama_client.embeddings("bert", TEXT).embedding) == vector
    assert len(ollama_client.embed("bert", TEXT, dimensions=5).embeddings[0]) == 5
    assert list(ollama_client.embed("bert", "").embeddings) == []
    shown = ollama_client.show("bert")
    assert shown.capabilities == ["embedding"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["bert.embedding_length"] == WIDTH
    cut = bert.post("/api/embed", {"input": "a" * 500})
    assert cut.headers["x-homespec-notice"] == "input[0] was cut to 192 tokens"
    with pytest.raises(ollama.ResponseError) as caught:
        ollama_client.embed("bert", "a" * 500, truncate=False)
    assert caught.value.status_code == 400


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": ["a", []]}, "input"),
        ({"input": ["a", 5]}, "input"),
        ({"input": [5, "a"]}, "input"),
        ({"input": [True]}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": [10**6]}, "input"),
        ({"input": [10**30]}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a" * 500}, "input"),
        ({"input": TEXT, "encoding_format": "int8"}, "encoding_format"),
        ({"input": TEXT, "dimensions": 0}, "dimensions"),
        ({"input": TEXT, "dimensions": WIDTH + 1}, "dimensions"),
        ({"input": TEXT, "dimensions": "8"}, "dimensions"),
        ({"input": TEXT, "model": "other"}, "model"),
    ],
)
def test_bad_requests_are_named_and_harm_nobody(bert: Daemon, vector: list[float], body: Any, param: str) -> None:
    response = bert.post("/v1/embeddings", body)
    assert response.status_code in (400, 404), response.text
    assert response.json()["error"]["param"] == param
    assert bert.post("/v1/embeddings", {"input": TEXT}).json()["data"][0]["embedding"] == vector


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": HI}),
        ("/v1/chat/completions", {"messages": HI, "stream": True}),
        ("/v1/completions", {"prompt": "a"}),
        ("/v1/responses", {"input": "a"}),
        ("/api/chat", {"messages": HI}),
        ("/api/generate", {"prompt": "a"}),
    ],
)
def test_an_embedding_model_does_not_talk(bert: Daemon, path: str, body: Any) -> None:
    response = bert.post(path, body)
    assert response.status_code == 400, response.text
    code, message = fault(response)
    assert code == "model_does_not_generate"
    assert "/v1/embeddings" in message


def test_it_says_what_it_is(bert: Daemon) -> None:
    status = bert.status()
    assert status["model"]["generates"] is False
    assert status["model"]["embedding"] == {"pooling": "mean", "num_dimensions": WIDTH, "max_tokens": 192}
    assert status["speculation"]["state"] == "off"
    assert bert.health().status_code == 200
    assert "homespec_requests_total" in bert.metrics()
    [card] = bert.client().models.list().data
    assert card.model_extra is not None
    assert card.model_extra["capabilities"] == ["embedding"]
    assert bert.post("/admin/drafter", {"mode": "off"}).status_code == 200


def test_a_client_that_leaves_ends_its_request(bert: Daemon) -> None:
    before = bert.status()["counters"]["prompt_tokens"]
    with pytest.raises(httpx.TimeoutException):
        httpx.post(f"{bert.url}/v1/embeddings", json={"input": ["a" * 190] * 2048}, timeout=0.3)
    eventually(bert.is_idle, "nothing runs any more")
    assert bert.status()["counters"]["prompt_tokens"] - before < 2048 * 192


def test_a_model_that_talks_embeds_beside_when_it_is_told_to(filler: Daemon) -> None:
    with filler.client() as client:
        [data] = client.embeddings.create(model="default", input="aab").data
        answer = client.completions.create(model="default", prompt="c", max_tokens=5, temperature=0)
    assert max(range(len(data.embedding)), key=data.embedding.__getitem__) == ord("a")
    assert answer.choices[0].text == "defgh"
    assert filler.status()["model"]["embedding"]["pooling"] == "mean"
    assert "embedding" in filler.post("/api/show", {}).json()["capabilities"]


def test_a_model_that_only_talks_says_how_to_have_it_embed(thinker: Daemon) -> None:
    for path in ("/v1/embeddings", "/api/embed"):
        code, message = fault(thinker.post(path, {"input": "a"}))
        assert code == "embeddings_not_supported"
        assert "embeddings = 'mean'" in message
    assert thinker.complete("c", 1, **GREEDY)["choices"][0]["text"] == "d"
