"""Every feature through the official clients against the real model: whole and undrafted is streamed and drafted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ollama
import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.daemons import HTTP_TIMEOUT_S, Daemon
from tests.server.test_tools import LIGHT

pytestmark = [pytest.mark.process, pytest.mark.real, pytest.mark.usefixtures("unharmed")]

REPETITIVE = "red green blue red green blue red green"
MESSAGES: list[Any] = [{"role": "user", "content": f"Go on: {REPETITIVE}"}]
SAMPLED: dict[str, Any] = {"temperature": 0.8, "seed": 5}
SHORT = {"max_tokens": 10}
SCHEMA = {"type": "object", "properties": {"colour": {"enum": ["red", "green"]}}, "required": ["colour"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": {**SCHEMA, "additionalProperties": False}}}

Answer = Any
Ask = Callable[[openai.OpenAI, bool, dict[str, Any]], Answer]


def chat(client: openai.OpenAI, stream: bool, fields: dict[str, Any]) -> Answer:
    """By choice: text, calls, how likely each token was, and why it ended."""
    body = {"model": "default", "messages": MESSAGES, **SHORT, **fields}
    if stream:
        return streamed_chat(client.chat.completions.create(stream=True, **body))
    return [
        (
            choice.message.content or "",
            [(call.function.name, call.function.arguments) for call in choice.message.tool_calls or []],
            [(each.token, each.logprob) for each in (choice.logprobs.content or [] if choice.logprobs else [])],
            choice.finish_reason,
        )
        for choice in client.chat.completions.create(**body).choices
    ]


def streamed_chat(chunks: Iterable[ChatCompletionChunk]) -> Answer:
    texts: defaultdict[int, str] = defaultdict(str)
    calls: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
    logprobs: defaultdict[int, list[Any]] = defaultdict(list)
    reasons: dict[int, str] = {}
    for choice in (choice for chunk in chunks for choice in chunk.choices):
        texts[choice.index] += choice.delta.content or ""
        for part in choice.delta.tool_calls or []:
            assert part.function is not None
            if part.function.name:
                calls[choice.index].append((part.function.name, ""))
            name, arguments = calls[choice.index].pop()
            calls[choice.index].append((name, arguments + (part.function.arguments or "")))
        if choice.logprobs is not None:
            logprobs[choice.index] += [(each.token, each.logprob) for each in choice.logprobs.content or []]
        if choice.finish_reason is not None:
            reasons[choice.index] = choice.finish_reason
    return [(texts[index], calls[index], logprobs[index], reason) for index, reason in sorted(reasons.items())]


def completion(client: openai.OpenAI, stream: bool, fields: dict[str, Any]) -> Answer:
    """By choice: text, tokens and how likely they were."""
    body = {"model": "default", "prompt": REPETITIVE, **SHORT, **fields}
    if not stream:
        return [
            (each.text, each.logprobs.tokens if each.logprobs else [], each.finish_reason)
            for each in client.completions.create(**body).choices
        ]
    texts: defaultdict[int, str] = defaultdict(str)
    tokens: defaultdict[int, list[str]] = defaultdict(list)
    reasons: dict[int, str] = {}
    for chunk in client.completions.create(stream=True, **body):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            tokens[choice.index] += (choice.logprobs.tokens or []) if choice.logprobs else []
            if choice.finish_reason is not None:
                reasons[choice.index] = choice.finish_reason
    return [(texts[index], tokens[index], reason) for index, reason in sorted(reasons.items())]


def response(client: openai.OpenAI, stream: bool, fields: dict[str, Any]) -> Answer:
    """Text, and how it ended."""
    body = {"model": "default", "input": MESSAGES[0]["content"], **fields}
    if not stream:
        answer = client.responses.create(**body)
    else:
        last = list(client.responses.create(stream=True, **body))[-1]
        assert last.type in ("response.completed", "response.incomplete")
        answer = last.response
    return answer.output_text, answer.status


CELLS: dict[str, tuple[Ask, dict[str, Any]]] = {
    "chat greedy": (chat, {"temperature": 0}),
    "chat sampled": (chat, SAMPLED),
    "chat stop": (chat, {"temperature": 0, "stop": ["blue"]}),
    "chat logprobs": (chat, {**SAMPLED, "logprobs": True, "top_logprobs": 2}),
    "chat choices": (chat, {**SAMPLED, "n": 2, "max_tokens": 6}),
    "chat schema": (chat, {**SAMPLED, "response_format": FORMAT, "max_tokens": 30}),
    "chat call": (
        chat,
        {**SAMPLED, "tools": [LIGHT], "tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 50},
    ),
    "chat prefill": (chat, {"temperature": 0, "messages": [*MESSAGES, {"role": "assistant", "content": "red green"}]}),
    "chat penalties": (chat, {**SAMPLED, "frequency_penalty": 0.7, "presence_penalty": 0.3, "logit_bias": {"284": -5}}),
    "completion logprobs": (completion, {**SAMPLED, "logprobs": 2}),
    "completion echo": (completion, {"temperature": 0, "echo": True}),
    "response": (response, {"temperature": 0, "max_output_tokens": 10}),
}


@pytest.fixture(scope="module")
def client(demo: Daemon) -> Iterator[openai.OpenAI]:
    with demo.client() as client:
        yield client


@pytest.mark.parametrize(("ask", "fields"), CELLS.values(), ids=CELLS)
def test_openai(client: openai.OpenAI, ask: Ask, fields: dict[str, Any]) -> None:
    def asked(stream: bool, mode: str) -> Answer:
        return ask(client, stream, {**fields, "extra_body": {"speculative": {"mode": mode}}})

    answer = asked(False, "off")
    assert answer == asked(True, "auto")
    if "tools" in fields:
        [(_, [(name, text)], _, _)] = answer
        arguments = json.loads(text)
        assert name == "set_light"
        assert arguments["room"] in ("kitchen", "bath")
        assert isinstance(arguments["on"], bool)


@pytest.fixture(params=["off", "auto"])
def drafting(request: pytest.FixtureRequest, demo: Daemon) -> Iterator[str]:
    mode: str = request.param
    assert demo.post("/admin/drafter", {"mode": mode}).status_code == 200
    yield mode
    assert demo.post("/admin/drafter", {"mode": "auto"}).status_code == 200


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """What each cell answered first."""
    return {}


OPTIONS = {**SAMPLED, "num_predict": 10}
OLLAMA_CELLS: dict[str, dict[str, Any]] = {
    "chat": {"messages": MESSAGES, "options": OPTIONS},
    "chat format": {"messages": MESSAGES, "options": {**OPTIONS, "num_predict": 30}, "format": SCHEMA},
    "generate": {"prompt": REPETITIVE, "options": OPTIONS, "system": "Be brief."},
    "generate raw": {"prompt": REPETITIVE, "options": OPTIONS, "raw": True},
}


@pytest.mark.parametrize("name", OLLAMA_CELLS)
def test_ollama(demo: Daemon, drafting: str, seen: dict[str, Any], name: str) -> None:
    """Drafting is switched for all: Ollama's requests cannot say."""
    asked, is_stream = OLLAMA_CELLS[name], drafting == "auto"
    with ollama.Client(host=demo.url, timeout=HTTP_TIMEOUT_S) as client:
        ask: Any = client.chat if name.startswith("chat") else client.generate
        said = ask("default", stream=is_stream, **asked)
        parts = [dict(part) for part in (said if is_stream else [said])]
    text = "".join((part["message"].content if "message" in part else part["response"]) or "" for part in parts)
    answer = (text, parts[-1]["done_reason"], parts[-1]["eval_count"])
    assert seen.setdefault(name, answer) == answer
    if "format" in asked:
        assert json.loads(text)["colour"] in ("red", "green")
