"""The official client against the real model."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam
from openai.types.completion import Completion

from homespec.wire.chat import ChatRequest
from homespec.wire.requests import DEFAULT_COMPLETION_TOKENS, CompletionRequest
from tests.daemons import GREEDY, Daemon

pytestmark = [pytest.mark.process, pytest.mark.real, pytest.mark.usefixtures("unharmed")]

MODEL = "SmolLM2-135M-Instruct.Q4_1"
QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Count from one to ten."}]
COUNTING = "One, two, three, four,"
SAMPLED: dict[str, Any] = {"temperature": 0.8, "seed": 11}
PLAIN = {"speculative": {"mode": "off"}}


@pytest.fixture(scope="module")
def client(demo: Daemon) -> openai.OpenAI:
    return demo.client()


def chat_text(chunks: list[ChatCompletionChunk]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def completion_text(chunks: list[Completion]) -> str:
    return "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)


def test_chat_whole(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=6, **SAMPLED)

    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == MODEL
    [choice] = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert answer.usage is not None
    num_tokens = answer.usage.completion_tokens
    assert 1 <= num_tokens <= 6
    assert choice.finish_reason == ("length" if num_tokens == 6 else "stop")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + num_tokens
    extra = answer.model_extra
    assert extra is not None
    assert extra["timings"]["predicted_n"] == num_tokens
    assert extra["timings"]["prompt_n"] + extra["timings"]["cache_n"] == answer.usage.prompt_tokens
    assert extra["speculative"]["state"] == "ready"
    assert extra["speculative"]["rounds"] >= 1
    assert extra["speculative"]["exactness"] in ("strict", "distribution")


def test_chat_stream_is_the_same_text(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=12, **SAMPLED)
    chunks = list(client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=12, stream=True, **SAMPLED))

    assert chat_text(chunks) == whole.choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    *before, last = chunks
    assert all(chunk.choices[0].finish_reason is None for chunk in before)
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason
    assert last.choices[0].delta.content is None
    assert last.model_extra is not None
    assert whole.usage is not None
    assert last.model_extra["timings"]["predicted_n"] == whole.usage.completion_tokens
    assert last.model_extra["speculative"]["rounds"] >= 1


def test_completion_stream_is_the_same_text(client: openai.OpenAI) -> None:
    whole = client.completions.create(model=MODEL, prompt=COUNTING, max_tokens=12, **SAMPLED)
    chunks = list(client.completions.create(model=MODEL, prompt=COUNTING, max_tokens=12, stream=True, **SAMPLED))

    assert whole.object == "text_completion"
    assert whole.id.startswith("cmpl-")
    assert whole.usage is not None
    assert completion_text(chunks) == whole.choices[0].text
    assert {chunk.object for chunk in chunks} == {"text_completion"}
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].model_extra is not None
    assert chunks[-1].model_extra["timings"]["predicted_n"] == whole.usage.completion_tokens


def test_usage_comes_in_one_more_chunk_when_it_is_asked_for(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"stream_options": {"include_usage": True}, "stream": True, "max_tokens": 3, **GREEDY}
    chat = list(client.chat.completions.create(model=MODEL, messages=QUESTION, **options))
    completion = list(client.completions.create(model=MODEL, prompt=COUNTING, **options))

    for chunks in (chat, completion):
        *before, last = chunks
        assert not last.choices
        assert last.usage.completion_tokens == 3
        assert last.usage.total_tokens == last.usage.prompt_tokens + 3
        assert all(chunk.choices and chunk.usage is None for chunk in before)


@pytest.mark.parametrize("stream_options", [None, {"include_usage": False}, {}])
def test_no_chunk_is_without_choices_otherwise(demo: Daemon, stream_options: Any) -> None:
    body = {"messages": QUESTION, "max_tokens": 2, "stream_options": stream_options, **GREEDY}
    with demo.stream("/v1/chat/completions", body) as stream:
        events = list(stream.events())
    assert all(event["choices"] for event in events)
    assert all("usage" not in event for event in events)


def test_usage_counts_the_tokens_that_were_delivered(demo: Daemon, client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"prompt": COUNTING, "max_tokens": 9, **GREEDY}
    plain = list(
        client.completions.create(
            model=MODEL, stream=True, stream_options={"include_usage": True}, extra_body=PLAIN, **options
        )
    )
    drafted = client.completions.create(model=MODEL, **options)

    def num_tokens(text: str) -> int:
        return len(demo.post("/tokenize", {"content": text}).json()["tokens"])

    text = completion_text(plain)
    assert plain[-1].usage is not None
    assert plain[-1].usage.prompt_tokens == num_tokens(COUNTING)
    assert plain[-1].usage.completion_tokens == 9
    assert num_tokens(COUNTING + text) == plain[-1].usage.total_tokens
    assert drafted.choices[0].text == text
    assert drafted.usage is not None
    assert drafted.usage.completion_tokens == 9


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5, "max_tokens": 3}, 3),
        ({"max_completion_tokens": 3, "max_tokens": 5}, 3),
        ({"max_completion_tokens": 3, "max_tokens": -1}, 3),
        ({"max_completion_tokens": 3, "max_tokens": 2**40}, 3),
    ],
)
def test_the_smaller_token_limit_counts(demo: Daemon, limits: dict[str, int], expected: int) -> None:
    response = demo.post("/v1/chat/completions", {"messages": QUESTION, **limits, **GREEDY})
    answer = response.json()
    assert answer["usage"]["completion_tokens"] == expected
    assert answer["choices"][0]["finish_reason"] == "length"


def test_completions_without_a_limit_keep_the_documented_one(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=MODEL, prompt=COUNTING, temperature=0)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == DEFAULT_COMPLETION_TOKENS
    assert answer.choices[0].finish_reason == "length"


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        pytest.param(" six", " five,", id="string"),
        pytest.param(["zzz", ",", " six"], " five", id="list, the first to come counts"),
        pytest.param("ve, s", " fi", id="across tokens"),
        pytest.param([" five, six", ", six"], "", id="overlapping"),
        pytest.param(["", " seven"], " five, six,", id="empty strings are ignored"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings(client: openai.OpenAI, stop: Any, text: str, stream: bool) -> None:
    options: dict[str, Any] = {"prompt": COUNTING, "stop": stop, "max_tokens": 10, **GREEDY}
    if stream:
        chunks = list(client.completions.create(model=MODEL, stream=True, **options))
        assert completion_text(chunks) == text
        assert chunks[-1].choices[0].finish_reason == "stop"
    else:
        answer = client.completions.create(model=MODEL, **options)
        assert answer.choices[0].text == text
        assert answer.choices[0].finish_reason == "stop"


def test_models_are_listed_and_retrieved(client: openai.OpenAI) -> None:
    [card] = client.models.list().data
    assert card.id == MODEL
    assert card.owned_by == "homespec"
    assert card.model_extra is not None
    assert card.model_extra["context_length"] == 2048
    for name in (MODEL, "default", f"{MODEL}.gguf"):
        assert client.models.retrieve(name).id == MODEL


@pytest.mark.parametrize("name", [None, "default", MODEL, f"{MODEL}.gguf"])
def test_every_name_of_the_model_answers(demo: Daemon, name: str | None) -> None:
    response = demo.post("/v1/chat/completions", {"model": name, "messages": QUESTION, "max_tokens": 1})
    assert response.json()["model"] == MODEL


@pytest.mark.parametrize("path", ["/chat/completions", "/completions"])
def test_the_base_url_needs_no_v1(demo: Daemon, path: str) -> None:
    body = {"messages": QUESTION, "prompt": COUNTING, "max_tokens": 2, **GREEDY}
    with_prefix, without = demo.post(f"/v1{path}", body).json(), demo.post(path, body).json()
    assert with_prefix["choices"] == without["choices"]


def test_text_parts_are_joined(demo: Daemon) -> None:
    def ask(system: Any, user: Any) -> Any:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return demo.post("/v1/chat/completions", {"messages": messages, "max_tokens": 4, **GREEDY}).json()

    parts = ask(
        [{"type": "text", "text": "Be brief."}], [{"type": "text", "text": "Say "}, {"type": "text", "text": "hi"}]
    )
    plain = ask("Be brief.", "Say hi")
    assert parts["choices"] == plain["choices"]
    assert parts["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "assistant", "content": None},
        {"role": "assistant"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": []},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "assistant", "content": None, "refusal": None, "name": None},
    ],
)
def test_an_assistant_turn_may_be_without_text(demo: Daemon, turn: dict[str, Any]) -> None:
    messages = [*QUESTION, turn, {"role": "user", "content": "Go on."}]
    response = demo.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1, **GREEDY})
    assert response.status_code == 200, response.text


def test_developer_messages_are_system_messages(demo: Daemon) -> None:
    def prompt_tokens(role: str) -> int:
        messages = [{"role": role, "content": "Answer in French."}, *QUESTION]
        answer = demo.post("/v1/chat/completions", {"messages": messages, "max_tokens": 1, **GREEDY}).json()
        return int(answer["usage"]["prompt_tokens"])

    assert prompt_tokens("developer") == prompt_tokens("system")


def test_null_means_absent(demo: Daemon) -> None:
    """Each optional field is null in at least one of two requests: one of them must bound the answer."""
    for bound, other in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
        fields = dict.fromkeys(ChatRequest.model_fields)
        response = demo.post("/v1/chat/completions", fields | {"messages": QUESTION, bound: 1, other: None})
        assert response.status_code == 200, response.text
    fields = dict.fromkeys(CompletionRequest.model_fields)
    response = demo.post("/v1/completions", fields)
    assert response.status_code == 200, response.text
    assert response.json()["usage"]["completion_tokens"] <= DEFAULT_COMPLETION_TOKENS


def test_null_inside_options_means_absent(demo: Daemon) -> None:
    body = {
        "messages": QUESTION,
        "max_tokens": 1,
        "speculative": {"mode": None, "max_draft_tokens": None},
        "stream_options": {"include_usage": None},
    }
    assert demo.post("/v1/chat/completions", body).status_code == 200


def test_unknown_fields_are_ignored(demo: Daemon) -> None:
    body = {"messages": QUESTION, "max_tokens": 1, "user": "me", "store": True, "a_new_field": {"x": [1, None]}}
    assert demo.post("/v1/chat/completions", body).status_code == 200


def test_prompts_may_be_token_ids(demo: Daemon) -> None:
    ids = demo.post("/tokenize", {"content": COUNTING}).json()["tokens"]
    assert demo.post("/detokenize", {"tokens": ids}).json()["content"] == COUNTING
    texts = set()
    for prompt in (COUNTING, [COUNTING], ids, [ids]):
        answer = demo.post("/v1/completions", {"prompt": prompt, "max_tokens": 3, **GREEDY}).json()
        assert answer["usage"]["prompt_tokens"] == len(ids)
        texts.add(answer["choices"][0]["text"])
    assert len(texts) == 1
