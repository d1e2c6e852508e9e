"""Every fault of a client gets an OpenAI-shaped answer that names the field, and harms nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from homespec.wire.chat import ChatRequest
from homespec.wire.generation import MAX_CHOICES, MAX_STOPS
from homespec.wire.requests import CompletionRequest
from tests.daemons import Daemon, eventually
from tests.server.conftest import MAX_BODY_BYTES, N_CTX

pytestmark = [pytest.mark.process, pytest.mark.real, pytest.mark.usefixtures("unharmed")]

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
HI = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
NUMBERS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "max_tokens",
    "presence_penalty",
    "frequency_penalty",
    "repeat_penalty",
    "repeat_last_n",
    "n",
)


@pytest.fixture(autouse=True)
def daemon(demo: Daemon) -> Iterator[Daemon]:
    """The daemon that was there before answers afterwards."""
    yield demo
    assert demo.alive
    assert demo.health().status_code == 200


def refused(response: httpx.Response, status: int, param: str | None, *fragments: str) -> Any:
    """Check the shape of a refusal; the error object."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param
    assert error["type"]
    for fragment in fragments:
        assert fragment in error["message"], error["message"]
    return error


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": HI, **fields}


def user(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def schema(content: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": content}}


@pytest.mark.parametrize(
    ("body", "param", "fragment"),
    [
        pytest.param({}, "messages", "required", id="no messages"),
        pytest.param({"messages": None}, "messages", "required", id="null messages"),
        pytest.param({"messages": []}, "messages", "at least 1", id="empty messages"),
        pytest.param({"messages": "hi"}, "messages", "list", id="text for messages"),
        pytest.param({"messages": ["hi"]}, "messages[0]", "", id="text for a message"),
        pytest.param({"messages": [{"content": "hi"}]}, "messages[0].role", "required", id="no role"),
        pytest.param(
            {"messages": [{"role": "alien", "content": "hi"}]}, "messages[0].role", "assistant", id="unknown role"
        ),
        pytest.param({"messages": [{"role": "user"}]}, "messages[0].content", "text", id="no content"),
        pytest.param(user(None), "messages[0].content", "null", id="null content"),
        pytest.param(user(5), "messages[0].content", "text", id="number for content"),
        pytest.param(user({"text": "hi"}), "messages[0].content", "text", id="object for content"),
        pytest.param(
            user([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]),
            "messages[0].content[1]",
            "image_url",
            id="image",
        ),
        pytest.param(
            user([{"type": "input_audio", "input_audio": {}}]), "messages[0].content[0]", "input_audio", id="audio"
        ),
        pytest.param(user([{"type": "text"}]), "messages[0].content[0]", "no text", id="part without text"),
        pytest.param(user(["hi"]), "messages[0].content[0]", "str", id="text for a part"),
        pytest.param(
            {"messages": [*HI, {"role": "tool", "tool_call_id": "1", "content": None}]},
            "messages[1].content",
            "null",
            id="null tool result",
        ),
        pytest.param(chat(n=0), "n", "1", id="no choices"),
        pytest.param(chat(n=1000), "n", str(MAX_CHOICES), id="a thousand choices"),
        pytest.param(chat(n=1000, stream=True), "n", str(MAX_CHOICES), id="a thousand choices in a stream"),
        pytest.param(chat(tools=[TOOL, TOOL]), "tools", "earlier", id="two tools of one name"),
        pytest.param(chat(tools=["f"]), "tools[0]", "", id="text for a tool"),
        pytest.param(chat(tools=[{"type": "web_search"}]), "tools[0].type", "function", id="a tool of another kind"),
        pytest.param(chat(tools=[TOOL], tool_choice="must"), "tool_choice", "required", id="unknown tool_choice"),
        pytest.param(chat(tool_choice="required"), "tool_choice", "no tools", id="a call without tools"),
        pytest.param(chat(tools=[TOOL], regex="a"), "regex", "tools", id="tools and a regex"),
        pytest.param(
            chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "g"}}),
            "tool_choice",
            "'g'",
            id="a call of a missing function",
        ),
        pytest.param(chat(function_call="auto"), "function_call", "tools", id="function_call"),
        pytest.param(
            chat(chat_template_kwargs={"messages": []}), "chat_template_kwargs", "messages", id="template variables"
        ),
        pytest.param(chat(reasoning_effort="huge"), "reasoning_effort", "'low'", id="unknown effort"),
        pytest.param(
            chat(tool_choice={"type": "function", "function": {"name": "f"}}), "tool_choice", "", id="a named call"
        ),
        pytest.param(
            chat(tools=[TOOL], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"function": 5}]}),
            "tool_choice",
            "None",
            id="a number for an allowed function",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "content": "", "tool_calls": 5}, *HI]},
            "messages[0].tool_calls",
            "valid list",
            id="a number for calls",
        ),
        pytest.param(
            {"messages": [{"role": "tool", "tool_call_id": ["1"], "content": "x"}]},
            "messages[0].tool_call_id",
            "valid string",
            id="a list for the id of a call",
        ),
        pytest.param(chat(functions=[{"name": "f"}]), "functions", "not supported", id="functions"),
        pytest.param(chat(logprobs=5), "logprobs", "boolean", id="number for logprobs"),
        pytest.param(chat(top_logprobs=3), "top_logprobs", "logprobs", id="top_logprobs alone"),
        pytest.param(chat(logprobs=True, top_logprobs=21), "top_logprobs", "20", id="too many top_logprobs"),
        pytest.param(chat(response_format="json"), "response_format", "dictionary", id="response_format text"),
        pytest.param(chat(response_format={"type": "xml"}), "response_format.type", "'json_schema'", id="xml"),
        pytest.param(
            chat(response_format={"type": "json_schema"}),
            "response_format.json_schema.schema",
            "missing",
            id="no schema",
        ),
        pytest.param(
            chat(response_format={"type": "json_object"}, regex="a"), "regex", "combined", id="two constraints"
        ),
        pytest.param(chat(temperature=-1), "temperature", "0", id="temperature below 0"),
        pytest.param(chat(max_tokens=0), "max_tokens", "1", id="no tokens"),
        pytest.param(chat(max_tokens=-2), "max_tokens", "1", id="fewer than no tokens"),
        pytest.param(chat(max_tokens=1.5), "max_tokens", "integer", id="half a token"),
        pytest.param(chat(max_tokens=10**30), "max_tokens", "less than", id="more tokens than a number holds"),
        pytest.param(chat(top_k=10**30), "top_k", "less than", id="top_k beyond"),
        pytest.param(chat(top_p=1.1), "top_p", "1", id="top_p above 1"),
        pytest.param(chat(stop=5), "stop", "", id="number for stop"),
        pytest.param(chat(stop=["a", 5]), "stop[1]", "string", id="number among stops"),
        pytest.param(chat(stop=["x"] * (MAX_STOPS + 1)), "stop", str(MAX_STOPS), id="too many stops"),
        pytest.param(chat(stream="true"), "stream", "boolean", id="text for stream"),
        pytest.param(chat(stream=1), "stream", "boolean", id="number for stream"),
        pytest.param(chat(stream_options="yes"), "stream_options", "", id="text for stream_options"),
        pytest.param(chat(logit_bias={"x": 1}), "logit_bias", "x", id="bias of no token"),
        pytest.param(chat(logit_bias={"99999999": 1}), "logit_bias", "49152", id="bias outside the vocabulary"),
        pytest.param(chat(logit_bias={"-1": 1}), "logit_bias", "-1", id="bias below the vocabulary"),
        pytest.param(chat(logit_bias={"5": 1e308}), "logit_bias.5", "less than", id="bias beyond a float"),
        pytest.param(chat(logit_bias={"5": "1"}), "logit_bias.5", "number", id="text for bias"),
        pytest.param(chat(logit_bias={"9" * 5000: 1}), "logit_bias", "not a token id", id="bias of 5000 digits"),
        pytest.param(chat(logit_bias=[1]), "logit_bias", "dictionary", id="list for logit_bias"),
        pytest.param(chat(speculative={"mode": "eagle9"}), "speculative.mode", "'ngram'", id="unknown drafter"),
        pytest.param(
            chat(speculative={"max_draft_tokens": 65}), "speculative.max_draft_tokens", "64", id="draft too long"
        ),
        pytest.param(
            chat(speculative={"max_draft_tokens": -1}), "speculative.max_draft_tokens", "0", id="negative draft"
        ),
        pytest.param(
            chat(speculative={"max_draft_tokens": True}), "speculative.max_draft_tokens", "integer", id="true draft"
        ),
        pytest.param(chat(speculative="off"), "speculative", "dictionary", id="text for speculative"),
    ],
)
def test_chat(daemon: Daemon, body: Any, param: str, fragment: str) -> None:
    refused(daemon.post(CHAT, body), 400, param, fragment)


@pytest.mark.parametrize(
    ("body", "param", "fragment"),
    [
        pytest.param({"prompt": []}, "prompt", "empty", id="no tokens"),
        pytest.param({"prompt": [[]]}, "prompt", "empty", id="one prompt without tokens"),
        pytest.param({"prompt": ["a", "b"]}, "prompt", "2", id="two prompts"),
        pytest.param({"prompt": [1, "a"]}, "prompt", "token ids", id="mixed"),
        pytest.param({"prompt": [True]}, "prompt", "token ids", id="true for a token"),
        pytest.param({"prompt": [1.0]}, "prompt", "token ids", id="float for a token"),
        pytest.param({"prompt": 5}, "prompt", "token ids", id="number"),
        pytest.param({"prompt": {"text": "a"}}, "prompt", "token ids", id="object"),
        pytest.param({"prompt": [1, 99999999]}, "prompt", "49152", id="outside the vocabulary"),
        pytest.param({"prompt": [-1]}, "prompt", "-1", id="below the vocabulary"),
        pytest.param({"prompt": "a", "echo": True, "logprobs": 1}, "echo", "logprobs", id="echo with logprobs"),
        pytest.param({"prompt": "a", "suffix": "b"}, "suffix", "not taught", id="suffix"),
        pytest.param({"prompt": "a", "logprobs": 21}, "logprobs", "20", id="too many logprobs"),
        pytest.param({"prompt": "a", "logprobs": -1}, "logprobs", "0", id="fewer than no logprobs"),
        pytest.param({"prompt": "a", "best_of": 2}, "best_of", "2", id="best_of"),
        pytest.param({"prompt": "a", "n": 17}, "n", str(MAX_CHOICES), id="too many choices"),
    ],
)
def test_completion(daemon: Daemon, body: Any, param: str, fragment: str) -> None:
    refused(daemon.post(COMPLETION, body), 400, param, fragment)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        pytest.param({"regex": "("}, "regex", id="open group"),
        pytest.param({"json_schema": {"type": "no such type"}}, "json_schema", id="schema beside"),
        pytest.param({"json_schema": {}, "regex": "a"}, "json_schema", id="two of them"),
        pytest.param({"regex": "+a"}, "regex", id="quantifier on nothing"),
        pytest.param({"regex": "(" * 60_000 + ")" * 60_000}, "regex", id="60000 nested groups"),
        pytest.param({"grammar": "root ::= ("}, "grammar", id="open rule"),
        pytest.param({"grammar": "start: " + "(" * 60_000 + '"a"' + ")" * 60_000}, "grammar", id="60000 nested rules"),
        pytest.param({"response_format": schema({"type": "no such type"})}, "response_format", id="unknown type"),
        pytest.param(
            {"response_format": schema({"type": "string", "pattern": "^(\\d+$"})}, "response_format", id="pattern"
        ),
        pytest.param({"response_format": schema({"$ref": "http://x/y"})}, "response_format", id="remote reference"),
        pytest.param({"response_format": schema({"maxLength": 10**40})}, "response_format", id="number too large"),
        pytest.param({"response_format": schema({"$ref": "#"})}, "response_format", id="nothing fits"),
        pytest.param({"regex": "(a{1000}){1000}"}, "regex", id="grows too large"),
    ],
)
def test_a_constraint_that_cannot_be_honoured(daemon: Daemon, fields: Any, param: str) -> None:
    message = refused(daemon.post(CHAT, chat(max_tokens=2, **fields)), 400, param)["message"]
    assert len(message) < 400
    assert "\n" not in message
    assert "<state>" not in message


@pytest.mark.parametrize("value", ["1", True, [1], {}])
def test_a_number_is_a_number(daemon: Daemon, value: Any) -> None:
    assert set(NUMBERS) <= set(ChatRequest.model_fields) & set(CompletionRequest.model_fields)
    for name in (*NUMBERS, "max_completion_tokens"):
        refused(daemon.post(CHAT, chat(**{name: value})), 400, name)
    for name in (*NUMBERS, "best_of"):
        refused(daemon.post(COMPLETION, {"prompt": "a", name: value}), 400, name)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({"path": CHAT, "messages": [{"role": "user", "content": "Hi", "x": 10**30}]}, id="in a message"),
        pytest.param({"path": COMPLETION, "prompt": [10**30]}, id="token"),
        pytest.param({"path": CHAT, "messages": HI, "logit_bias": {str(10**30): 1}}, id="bias"),
        pytest.param({"path": "/detokenize", "tokens": [10**30]}, id="detokenize"),
    ],
)
def test_a_number_too_large_for_the_engine_takes_no_place_in_the_queue(daemon: Daemon, body: dict[str, Any]) -> None:
    refused(daemon.post(body.pop("path"), body), 400, None, "2**63")
    eventually(daemon.is_idle, "nothing is left over")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, COMPLETION])
def test_a_prompt_over_the_context_names_both_numbers(daemon: Daemon, path: str, stream: bool) -> None:
    text = "word " * (N_CTX + 100)
    body = {**user(text), "prompt": text, "stream": stream}
    param = "messages" if path == CHAT else "prompt"
    error = refused(daemon.post(path, body), 400, param, str(N_CTX), "--ctx")
    assert error["code"] == "context_length_exceeded"
    num_tokens = int(error["message"].split(" tokens")[0].split()[-1])
    assert N_CTX < num_tokens < N_CTX + 200


def test_a_prompt_of_the_whole_context_is_refused_and_one_token_less_is_not(tiny: Daemon) -> None:
    n_ctx = tiny.status()["model"]["n_ctx"]
    refused(tiny.post(COMPLETION, {"prompt": [97] * n_ctx}), 400, "prompt", str(n_ctx))
    fits = tiny.post(COMPLETION, {"prompt": [97] * (n_ctx - 1), "max_tokens": 5}).json()
    assert fits["usage"]["completion_tokens"] == 1
    assert fits["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", [CHAT, COMPLETION])
def test_an_unknown_model_is_404_and_names_what_there_is(daemon: Daemon, path: str) -> None:
    response = daemon.post(path, {"model": "gpt-9", "messages": HI, "prompt": "a"})
    error = refused(response, 404, "model", "gpt-9", "SmolLM2-135M-Instruct.Q4_1")
    assert error["code"] == "model_not_found"
    refused(httpx.get(f"{daemon.url}/v1/models/gpt-9"), 404, "model", "SmolLM2-135M-Instruct.Q4_1")


def test_the_client_raises_its_own_errors(daemon: Daemon) -> None:
    client = daemon.client()
    with pytest.raises(openai.NotFoundError) as not_found:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "Hi"}])
    assert not_found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model="default", messages=[])
    assert bad.value.param == "messages"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="default", messages=[], stream=True)


def post_raw(daemon: Daemon, content: bytes, content_type: str | None = "application/json") -> httpx.Response:
    headers = {} if content_type is None else {"content-type": content_type}
    return httpx.post(f"{daemon.url}{CHAT}", content=content, headers=headers, timeout=60)


def with_content(raw: bytes) -> bytes:
    return b'{"messages": [{"role": "user", "content": ' + raw + b"}]}"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"{", id="cut short"),
        pytest.param(b"", id="empty"),
        pytest.param(b"{'messages': []}", id="single quotes"),
        pytest.param(b'{"temperature": NaN, "messages": []}', id="NaN"),
        pytest.param(b'{"temperature": -Infinity, "messages": []}', id="infinity"),
        pytest.param(b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", id="100000 lists deep"),
        pytest.param(b'{"x": ' * 30_000 + b"1" + b"}" * 30_000, id="30000 objects deep"),
        pytest.param(with_content(b'"\\ud800"'), id="lone surrogate"),
        pytest.param(with_content(b'"\xff"'), id="not UTF-8"),
        pytest.param('{"messages": []}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'{"seed": ' + b"9" * 5000 + b"}", id="5000 digits"),
    ],
)
def test_broken_json(daemon: Daemon, content: bytes) -> None:
    error = refused(post_raw(daemon, content), 400, None, "not valid JSON")
    assert error["code"] == "invalid_json"


@pytest.mark.parametrize("body", [[], "text", 5, True])
def test_a_body_that_is_no_object(daemon: Daemon, body: Any) -> None:
    refused(daemon.post(CHAT, body), 400, None, "the body")


def test_a_number_that_overflows_is_refused_by_its_field(daemon: Daemon) -> None:
    refused(post_raw(daemon, b'{"messages": [{"role": "user", "content": "a"}], "top_p": 1e999}'), 400, "top_p")


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_another_content_type(daemon: Daemon, kind: str | None) -> None:
    """A web page can send these three without asking first."""
    refused(post_raw(daemon, json.dumps(chat()).encode(), kind), 415, None, "application/json")


def test_json_content_types(daemon: Daemon) -> None:
    content = json.dumps(chat(max_tokens=1)).encode()
    for kind in ("application/json; charset=utf-8", "Application/JSON", "application/vnd.api+json"):
        assert post_raw(daemon, content, kind).status_code == 200


def test_a_body_over_the_limit(daemon: Daemon) -> None:
    body = json.dumps(user("x" * MAX_BODY_BYTES)).encode()
    refused(post_raw(daemon, body), 413, None, str(MAX_BODY_BYTES))
    # Sent in chunks, so without a length up front.
    chunks = (body[start : start + 10_000] for start in range(0, len(body), 10_000))
    response = httpx.post(
        f"{daemon.url}{CHAT}", content=chunks, headers={"content-type": "application/json"}, timeout=60
    )
    refused(response, 413, None, str(MAX_BODY_BYTES))


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/nope", "/nope", "/v1/chat", "//health", "/v1/engines"])
def test_an_unknown_path_has_a_body(daemon: Daemon, method: str, path: str) -> None:
    error = refused(httpx.request(method, f"{daemon.url}{path}"), 404, None, path)
    assert error["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("GET", CHAT),
        ("GET", "/chat/completions"),
        ("PUT", COMPLETION),
        ("DELETE", "/v1/models"),
        ("POST", "/health"),
        ("POST", "/status"),
        ("GET", "/admin/drafter"),
        ("POST", "/admin/requests/cmpl-1"),
        ("PATCH", "/metrics"),
    ],
)
def test_a_wrong_method(daemon: Daemon, method: str, path: str) -> None:
    response = httpx.request(method, f"{daemon.url}{path}")
    error = refused(response, 405, None, method, path)
    assert error["code"] == "method_not_allowed"
    assert response.headers["allow"]


@pytest.mark.parametrize("path", ["/", "/health", "/status", "/metrics", "/api/tags", "/api/version", "/v1/models"])
def test_whoever_asks_for_the_head_only_gets_it(daemon: Daemon, path: str) -> None:
    """Ollama's clients look that way whether a server is there."""
    head, whole = httpx.head(f"{daemon.url}{path}"), httpx.get(f"{daemon.url}{path}")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize(("path", "status"), [(CHAT, 405), ("/events", 405), ("/nope", 404)])
def test_the_head_of_what_cannot_be_got(daemon: Daemon, path: str, status: int) -> None:
    assert httpx.head(f"{daemon.url}{path}").status_code == status


def test_the_root_says_who_answers(daemon: Daemon) -> None:
    said = httpx.get(daemon.url).json()
    assert (said["name"], said["api"]) == ("homespec", "/v1")


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/tokenize", {}, "content"),
        ("/tokenize", {"content": 5}, "content"),
        ("/detokenize", {}, "tokens"),
        ("/detokenize", {"tokens": ["1"]}, "tokens[0]"),
        ("/detokenize", {"tokens": [1, -1]}, "tokens[1]"),
        ("/detokenize", {"tokens": [1, 2, 49_152]}, "tokens[2]"),
        ("/admin/drafter", {}, "mode"),
        ("/admin/drafter", {"mode": None}, "mode"),
        ("/admin/drafter", {"mode": "eagle9"}, "mode"),
        ("/admin/drafter", {"reload": "yes"}, "reload"),
        ("/v1/responses", {"input": "a", "speculative": {"spans": True}}, "speculative.spans"),
    ],
)
def test_our_own_endpoints(daemon: Daemon, path: str, body: Any, param: str) -> None:
    refused(daemon.post(path, body), 400, param)
