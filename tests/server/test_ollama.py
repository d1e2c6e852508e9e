"""Ollama's own client against a daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import ollama
import pytest

from tests.daemons import HTTP_TIMEOUT_S, Daemon, eventually
from tests.server.test_tools import LIGHT, NOW

pytestmark = [pytest.mark.process, pytest.mark.real]

HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
GREEDY: dict[str, Any] = {"temperature": 0}
MODEL = "thinker:latest"


@pytest.fixture(scope="module")
def client(thinker: Daemon) -> Iterator[ollama.Client]:
    with ollama.Client(host=thinker.url, timeout=HTTP_TIMEOUT_S) as client:
        yield client


def test_the_model_is_listed_and_described(client: ollama.Client, thinker: Daemon) -> None:
    [model] = client.list().models
    assert model.model == "thinker"
    assert model.details is not None
    assert model.details.family == "llama"
    [running] = client.ps().models
    assert running.context_length == thinker.status()["model"]["n_ctx"]
    assert running.size
    shown = client.show(MODEL)
    assert shown.capabilities == ["completion", "tools", "thinking"]
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.architecture"] == "llama"
    assert shown.modelinfo["llama.context_length"] == 4096
    assert thinker.post("/api/show", {"name": "other"}).status_code == 404


def test_chat_whole(client: ollama.Client) -> None:
    answer = client.chat(MODEL, HI, options=GREEDY, keep_alive="5m")
    assert answer.message.content == "cd"
    assert answer.message.thinking == "ab"
    assert (answer.done, answer.done_reason) == (True, "stop")
    assert answer.eval_count == 7
    assert answer.prompt_eval_count
    for duration in (answer.total_duration, answer.eval_duration, answer.prompt_eval_duration):
        assert duration is not None
        assert duration > 0
    assert answer.created_at


def test_chat_stream_is_the_same(client: ollama.Client) -> None:
    chunks = list(client.chat(MODEL, HI, options=GREEDY, stream=True))
    assert "".join(chunk.message.content or "" for chunk in chunks) == "cd"
    assert "".join(chunk.message.thinking or "" for chunk in chunks) == "ab"
    *before, last = chunks
    assert not any(chunk.done for chunk in before)
    assert (last.done, last.done_reason, last.eval_count) == (True, "stop", 7)


def test_streams_are_the_default(thinker: Daemon) -> None:
    response = thinker.post("/api/chat", {"model": "thinker", "messages": HI, "options": GREEDY})
    assert response.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines[-1]["done"] is True


def test_thinking_can_be_switched_off(client: ollama.Client) -> None:
    answer = client.chat(MODEL, HI, options=GREEDY, think=False)
    assert (answer.message.content, answer.message.thinking) == ("cd", None)


@pytest.mark.parametrize("stream", [False, True])
def test_tools(client: ollama.Client, stream: bool) -> None:
    asked: dict[str, Any] = {"tools": [LIGHT, NOW], "options": GREEDY | {"num_predict": 200}}
    chunks = list(client.chat(MODEL, HI, stream=True, **asked)) if stream else [client.chat(MODEL, HI, **asked)]
    calls = [call for chunk in chunks for call in chunk.message.tool_calls or []]
    assert calls
    for call in calls:
        if call.function.name == "set_light":
            assert call.function.arguments["room"] in ("kitchen", "bath")
        else:
            assert (call.function.name, dict(call.function.arguments)) == ("now", {})
    conversation: list[Any] = [
        *HI,
        {"role": "assistant", "content": "", "tool_calls": calls[:2]},
        {"role": "tool", "content": "done", "tool_name": calls[0].function.name},
    ]
    assert client.chat(MODEL, conversation, options=GREEDY).message.content == "cd"


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_one_answer_are_numbered(thinker: Daemon, stream: bool) -> None:
    body = {"messages": HI, "tools": [LIGHT, NOW], "options": GREEDY | {"num_predict": 200}, "stream": stream}
    lines = [json.loads(line) for line in thinker.post("/api/chat", body).text.splitlines()]
    calls = [call for line in lines for call in line["message"].get("tool_calls", [])]
    assert [call["function"]["index"] for call in calls] == [*range(len(calls))]
    assert len(calls) > 1


@pytest.mark.parametrize("fields", [{}, {"tool_name": "f"}, {"tool_call_id": "call_of_a_message_that_was_cut_off"}])
def test_a_result_whose_call_was_not_sent_is_read_as_text(thinker: Daemon, fields: dict[str, str]) -> None:
    result = {"role": "tool", "content": "done", **fields}
    for messages in (
        [{"role": "system", "content": "Be short."}, result, {"role": "assistant", "content": "ok"}, *HI],
        [*HI, result],
    ):
        answer = thinker.post("/api/chat", {"messages": messages, "stream": False, "options": GREEDY})
        assert answer.status_code == 200, answer.text
        notice = answer.headers["x-homespec-notice"]
        assert "messages[1] is spelled out as text: the call that it answers was not sent" in notice


def test_a_format_is_kept_to(client: ollama.Client) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    answer = client.chat(MODEL, HI, format=schema)
    assert json.loads(answer.message.content or "")["n"] in (1, 2)


def test_generate(client: ollama.Client) -> None:
    answer = client.generate(MODEL, "hi", system="Be short.", options=GREEDY)
    assert (answer.response, answer.thinking, answer.done_reason) == ("cd", "ab", "stop")
    chunks = list(client.generate(MODEL, "hi", options=GREEDY, stream=True))
    assert "".join(chunk.response or "" for chunk in chunks) == "cd"
    assert client.generate(MODEL, "c", raw=True, options=GREEDY | {"num_predict": 1}).response == "d"


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs(client: ollama.Client, stream: bool) -> None:
    asked: dict[str, Any] = {"options": GREEDY, "logprobs": True, "top_logprobs": 1}
    chunks = list(client.chat(MODEL, HI, stream=True, **asked)) if stream else [client.chat(MODEL, HI, **asked)]
    logprobs = [each for chunk in chunks for each in chunk.logprobs or []]
    assert len(logprobs) == 7
    assert [each.token for each in logprobs][-3:-1] == ["c", "d"]


@pytest.mark.parametrize("raw", [False, True])
def test_logprobs_of_one_question(client: ollama.Client, raw: bool) -> None:
    answer = client.generate(MODEL, "c", raw=raw, options=GREEDY | {"num_predict": 1}, logprobs=True, top_logprobs=2)
    assert answer.logprobs is not None
    [first] = answer.logprobs
    assert first.token == ("d" if raw else "<think>")
    assert first.top_logprobs is not None
    assert len(first.top_logprobs) == 2
    with pytest.raises(ollama.ResponseError, match="top_logprobs"):
        client.generate(MODEL, "c", raw=raw, top_logprobs=2)


def test_a_request_without_a_question_loads_the_model(client: ollama.Client) -> None:
    assert client.generate(MODEL).done_reason == "load"
    assert client.chat(MODEL, []).done_reason == "load"


def test_options_without_effect_are_said(thinker: Daemon) -> None:
    options = {"num_ctx": 10**6, "mirostat": 2, "tfs_z": 1.0, "num_gpu": None}
    body = {"messages": HI, "stream": False, "options": options}
    assert thinker.post("/api/chat", body).headers["x-homespec-notice"] == (
        "options.mirostat has no effect; the context has 4096 tokens"
    )


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/api/chat", {"messages": HI, "options": {"temperature": "hot"}}, "options.temperature"),
        ("/api/generate", {"prompt": "a", "options": {"num_predict": "many"}}, "options.num_predict"),
        ("/api/chat", {"messages": HI, "format": 5}, "format"),
        ("/api/chat", {"messages": HI, "format": {"type": "none"}}, "format"),
        ("/api/generate", {"prompt": "a", "raw": True, "format": {"type": "none"}}, "format"),
        ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["x"]}]}, "messages[0].images"),
        ("/api/chat", {"messages": HI, "tools": [{"type": "other"}]}, "tools[0].type"),
        ("/api/chat", {"messages": [{"role": "assistant", "tool_calls": [5]}]}, "messages[0].tool_calls[0]"),
        ("/api/generate", {"prompt": "a", "suffix": "b"}, "suffix"),
        ("/api/generate", {"suffix": "b"}, "suffix"),
        ("/api/generate", {"prompt": "a", "context": [1]}, "context"),
        ("/api/generate", {"prompt": 5}, "prompt"),
        ("/api/embed", {"input": "a"}, "model"),
    ],
)
def test_what_cannot_be_honoured_is_named(thinker: Daemon, path: str, body: Any, param: str) -> None:
    response = thinker.post(path, body)
    assert response.status_code == 400, response.text
    assert response.json()["param"] == param


@pytest.mark.parametrize("options", [{"num_predict": -1}, {"num_predict": 0}, {"seed": -1, "num_predict": -2}])
def test_what_asks_for_no_limit_and_no_seed_has_none(client: ollama.Client, options: dict[str, int]) -> None:
    assert client.chat(MODEL, HI, options=GREEDY | options).message.content == "cd"


def test_a_refusal_is_a_text_as_clients_show_it(client: ollama.Client, thinker: Daemon) -> None:
    with pytest.raises(ollama.ResponseError) as caught:
        client.chat("other", HI)
    assert caught.value.error.startswith("model 'other' is not served here")
    assert caught.value.status_code == 404
    answers = (
        thinker.post("/api/chat", {"messages": 5}),
        thinker.post("/api/embed", {"input": "a"}),
        httpx.post(f"{thinker.url}/api/show", content="{}"),
        httpx.get(f"{thinker.url}/api/chat"),
        httpx.get(f"{thinker.url}/api/nowhere"),
        httpx.get(f"{thinker.url}/api/tags", headers={"host": "evil.example"}),
    )
    for answer, status in zip(answers, (400, 400, 415, 405, 404, 403), strict=True):
        assert (answer.status_code, set(answer.json())) == (status, {"error", "type", "param", "code"})
        assert isinstance(answer.json()["error"], str)


def test_models_are_fetched_elsewhere(client: ollama.Client) -> None:
    with pytest.raises(ollama.ResponseError, match="homespec pull"):
        client.pull("other")


def test_a_client_that_leaves_ends_its_request(demo: Daemon) -> None:
    before = demo.status()["counters"]["output_tokens"]
    body = {"prompt": "One, two,", "raw": True, "options": {"num_predict": 1500}}
    with demo.stream("/api/generate", body) as stream:
        next(stream.response.iter_bytes())
    eventually(lambda: demo.is_idle() or None, "nothing runs any more")
    assert demo.status()["counters"]["output_tokens"] - before < 1500


def test_the_version_is_one_that_clients_know(thinker: Daemon) -> None:
    version = httpx.get(f"{thinker.url}/api/version").json()
    assert version["version"].count(".") == 2


@pytest.fixture(scope="module", autouse=True)
def _same_engine(thinker: Daemon) -> Iterator[None]:
    pid = thinker.engine_pid
    yield
    assert thinker.engine_pid == pid
