"""Thinking told apart from the answer, and what a template can be told."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemons import Daemon

pytestmark = [pytest.mark.process, pytest.mark.real]

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
GREEDY: dict[str, Any] = {"messages": HI, "temperature": 0}


def message(daemon: Daemon, **fields: Any) -> Any:
    response = daemon.post(CHAT, {**GREEDY, **fields})
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]


def test_whole_and_streamed(thinker: Daemon) -> None:
    answer = message(thinker)
    assert (answer["reasoning_content"], answer["content"]) == ("ab", "cd")
    with thinker.client() as client:
        chunks = list(client.chat.completions.create(model="default", stream=True, **GREEDY))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content or "" for delta in deltas) == "cd"
    assert "".join((delta.model_extra or {}).get("reasoning_content") or "" for delta in deltas) == "ab"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_thinking_may_stay_in_the_content(thinker: Daemon) -> None:
    answer = message(thinker, reasoning_format="none")
    assert answer["content"] == "<think>ab</think>cd"
    assert "reasoning_content" not in answer


@pytest.mark.parametrize(
    "fields",
    [
        {"enable_thinking": False},
        {"reasoning_effort": "none"},
        {"chat_template_kwargs": {"enable_thinking": False}},
    ],
)
def test_thinking_can_be_switched_off(thinker: Daemon, fields: dict[str, Any]) -> None:
    """The template then ends with an empty block, after which the model says "cd"."""
    answer = message(thinker, **fields)
    assert answer["content"] == "cd"
    assert "reasoning_content" not in answer


def test_what_the_template_does_not_read_is_said(thinker: Daemon) -> None:
    response = thinker.post(CHAT, {**GREEDY, "chat_template_kwargs": {"mood": "good"}})
    assert response.headers["x-homespec-notice"] == "mood is not read by the chat template"
    assert "x-homespec-notice" not in thinker.post(CHAT, {**GREEDY, "reasoning_effort": "low"}).headers


SCHEMA = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"regex": "[xy]{3}/"}, "xxx/"),
        ({"grammar": 'root ::= "c" [y] "d"'}, "cyd"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}, '{"a":1}'),
    ],
)
def test_a_constraint_begins_where_the_thinking_ends(thinker: Daemon, fields: dict[str, Any], content: str) -> None:
    answer = message(thinker, **fields)
    assert answer["reasoning_content"] == "ab"
    assert "".join(answer["content"].split()) == content


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_format": "none"},  # all of it is content
        {"enable_thinking": False},
        {"reasoning_effort": "none"},
        {"messages": [*HI, {"role": "assistant", "content": "x"}]},
    ],
)
def test_a_constraint_is_for_all_that_is_content(thinker: Daemon, fields: dict[str, Any]) -> None:
    answer = message(thinker, regex="[xy]{3}", **fields)
    assert answer["content"] == "xxx"
    assert "reasoning_content" not in answer


def test_a_prefill_is_gone_on_from(thinker: Daemon) -> None:
    answer = message(thinker, messages=[*HI, {"role": "assistant", "content": "c"}])
    assert answer["content"] == "d"


def test_the_template_is_shown(thinker: Daemon) -> None:
    with thinker.client() as client:
        [card] = client.models.list().data
    assert card.model_extra is not None
    assert card.model_extra["meta"]["chat_template"] == "the model file"
    assert card.model_extra["meta"]["chat"]["tool_format"] == "hermes"
    assert card.model_extra["capabilities"] == ["completion", "tools", "thinking"]
    chat = thinker.status()["model"]["chat"]
    assert chat["reasoning"] == ["<think>", "</think>"]
    assert chat["tool_format_reason"]
