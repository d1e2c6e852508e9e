"""The official client's `responses` against a daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.daemons import Daemon
from tests.server.test_tools import LIGHT, NOW

pytestmark = [pytest.mark.process, pytest.mark.real]

FLAT = [{"type": "function", **tool["function"]} for tool in (LIGHT, NOW)]
GREEDY: dict[str, Any] = {"model": "default", "temperature": 0}
CALLING: dict[str, Any] = {**GREEDY, "input": "hi", "tools": FLAT, "parallel_tool_calls": False}


@pytest.fixture(scope="module")
def client(thinker: Daemon) -> Iterator[openai.OpenAI]:
    with thinker.client() as client:
        yield client


def test_text_and_thinking(client: openai.OpenAI) -> None:
    response = client.responses.create(input="hi", instructions="Be short.", **GREEDY)
    assert response.status == "completed"
    assert response.output_text == "cd"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.instructions == "Be short."
    assert response.usage is not None
    assert response.usage.output_tokens == 7
    assert response.usage.total_tokens == response.usage.input_tokens + 7
    assert response.model_extra is not None
    assert response.model_extra["speculative"]["rounds"] >= 1


def test_a_stream_tells_the_same(client: openai.OpenAI) -> None:
    events = list(client.responses.create(input="hi", stream=True, **GREEDY))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert kinds.count("response.output_item.added") == kinds.count("response.output_item.done") == 2
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    thinking = "".join(event.delta for event in events if event.type == "response.reasoning_text.delta")
    assert (text, thinking) == ("cd", "ab")
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.output_text == "cd"


def test_calls_and_their_results(client: openai.OpenAI) -> None:
    response = client.responses.create(**CALLING)
    reasoning, message, call = response.output
    assert (reasoning.type, message.type, call.type) == ("reasoning", "message", "function_call")
    assert call.type == "function_call"
    arguments = json.loads(call.arguments)
    assert call.name == "now" or arguments["room"] in ("kitchen", "bath")
    back: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        *(item.to_dict() for item in response.output),
        {"type": "function_call_output", "call_id": call.call_id, "output": "done"},
    ]
    assert client.responses.create(input=back, **GREEDY).output_text == "cd"
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(input=[back[0], back[-1]], **GREEDY)
    assert caught.value.param == "input"


def test_a_streamed_call_is_put_together_by_the_official_client(client: openai.OpenAI) -> None:
    asked = {**CALLING, "tool_choice": {"type": "function", "name": "now"}}
    with client.responses.stream(**asked) as stream:
        events = list(stream)
        final = stream.get_final_response()
    *_, call = final.output
    assert call.type == "function_call"
    assert (call.name, json.loads(call.arguments)) == ("now", {})
    deltas = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
    assert deltas == call.arguments


def test_a_schema(client: openai.OpenAI) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "x", "schema": {"enum": [1, 2]}, "strict": True}}
    assert client.responses.create(input="hi", text=text, **GREEDY).output_text in ("1", "2")


def test_an_answer_that_is_cut_off(client: openai.OpenAI) -> None:
    response = client.responses.create(input="hi", max_output_tokens=6, **GREEDY)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "c"}, "conversation"),
        ({"background": True}, "background"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"input": 5}, "input"),
        ({"input": []}, "input"),
        ({"input": [5]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input"),
        ({"input": [{"role": "user"}]}, "input"),
        ({"input": [{"role": ["user"]}]}, "input[0]"),
        ({"input": [{"type": "reasoning", "content": 5}]}, "input[0].content"),
        ({"input": [{"type": "function_call", "call_id": "1"}]}, "input"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function", "name": "a b"}]}, "tools[0].function.name"),
        ({"temperature": -1}, "temperature"),
        ({"reasoning": {"effort": "huge"}}, "reasoning.effort"),
        ({"text": {"format": {"type": "json_schema"}}}, "text.format"),
    ],
)
def test_what_cannot_be_honoured_is_named(thinker: Daemon, fields: dict[str, Any], param: str) -> None:
    response = thinker.post("/v1/responses", {"input": "hi", **fields})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["param"] == param
