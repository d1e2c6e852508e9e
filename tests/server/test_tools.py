"""Tool calls over HTTP. The models are tiny: what they call is up to chance, that they call well is not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.daemons import Daemon, running
from tests.kits.models import CHAT_MARKERS, Models

pytestmark = [pytest.mark.process, pytest.mark.real]

CHAT = "/v1/chat/completions"
HI = [{"role": "user", "content": "hi"}]
_, _, CALL, _ = CHAT_MARKERS


def function(name: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties), **more.pop("schema", {})}
    return {"type": "function", "function": {"name": name, "parameters": parameters, **more}}


LIGHT = function("set_light", {"room": {"enum": ["kitchen", "bath"]}, "on": {"type": "boolean"}}, description="Switch")
NOW = function("now", {})
FORCED: dict[str, Any] = {
    "messages": HI,
    "tools": [LIGHT, NOW],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "seed": 1,
}


@pytest.fixture(scope="module")
def simple(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Its template knows neither tools nor thinking."""
    with running(tmp_path_factory.mktemp("simple"), str(models.letters)) as daemon:
        yield daemon


@pytest.fixture(params=["thinker", "simple"])
def daemon(request: pytest.FixtureRequest) -> Daemon:
    found: Daemon = request.getfixturevalue(request.param)
    return found


def whole(daemon: Daemon, body: dict[str, Any]) -> Any:
    response = daemon.post(CHAT, body)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]


def check_call(call: Any) -> None:
    assert call["type"] == "function"
    assert call["id"]
    arguments = json.loads(call["function"]["arguments"])
    if call["function"]["name"] == "set_light":
        assert arguments["room"] in ("kitchen", "bath")
        assert isinstance(arguments["on"], bool)
    else:
        assert (call["function"]["name"], arguments) == ("now", {})


# Three ways in which clients put a stream together; some need the id in the first delta, some an index everywhere.


def by_index(chunks: list[Any]) -> list[Any]:
    calls: dict[int, Any] = {}
    for chunk in chunks:
        for delta in chunk["choices"][0]["delta"].get("tool_calls", []):
            call = calls.setdefault(delta["index"], {"id": "", "type": "", "function": {"name": "", "arguments": ""}})
            call["id"] += delta.get("id", "")
            call["type"] += delta.get("type", "")
            for key, text in delta["function"].items():
                call["function"][key] += text
    return [calls[index] for index in sorted(calls)]


def by_id(chunks: list[Any]) -> list[Any]:
    calls: list[Any] = []
    for chunk in chunks:
        for delta in chunk["choices"][0]["delta"].get("tool_calls", []):
            if delta.get("id"):
                assert delta["id"] not in [call["id"] for call in calls]
                calls.append({"id": delta["id"], "type": delta["type"], "function": dict(delta["function"])})
            else:
                calls[-1]["function"]["arguments"] += delta["function"]["arguments"]
    return calls


def streamed(daemon: Daemon, body: dict[str, Any]) -> list[Any]:
    with daemon.stream(CHAT, body) as stream:
        return list(stream.events())


def without_ids(calls: list[Any]) -> list[Any]:
    return [call["function"] for call in calls]


def test_a_required_call_is_made_whole_and_streamed(daemon: Daemon) -> None:
    for seed in range(4):
        body = {**FORCED, "seed": seed, "temperature": 1.0}
        choice = whole(daemon, body)
        [call] = choice["message"]["tool_calls"]
        check_call(call)
        assert choice["message"]["content"] is None
        assert choice["finish_reason"] == "tool_calls"
        chunks = streamed(daemon, body)
        assert without_ids(by_index(chunks)) == without_ids(by_id(chunks)) == [call["function"]]
        assert by_index(chunks) == by_id(chunks)
        assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_the_official_client_s_accumulator_reads_the_stream(daemon: Daemon) -> None:
    with daemon.client() as client, client.chat.completions.stream(model="default", **FORCED) as stream:
        final = stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls
    [call] = calls
    check_call(call.to_dict())


@pytest.mark.parametrize("name", ["set_light", "now"])
def test_a_named_function_is_the_one_that_is_called(daemon: Daemon, name: str) -> None:
    choice = whole(daemon, {**FORCED, "tool_choice": {"type": "function", "function": {"name": name}}})
    [call] = choice["message"]["tool_calls"]
    assert call["function"]["name"] == name
    check_call(call)


def test_allowed_tools(daemon: Daemon) -> None:
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "now"}}]}
    choice = whole(daemon, {**FORCED, "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}})
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "now"


def test_speculation_does_not_change_a_call(daemon: Daemon) -> None:
    answers = []
    for mode in ("off", "auto"):
        choice = whole(daemon, {**FORCED, "temperature": 0.9, "speculative": {"mode": mode}})
        answers.append(without_ids(choice["message"]["tool_calls"]))
    assert answers[0] == answers[1]


def test_several_calls_have_an_index_each(thinker: Daemon) -> None:
    body = {"messages": HI, "tools": [NOW], "tool_choice": "required", "logit_bias": {"10": 100}, "max_tokens": 150}
    choice = whole(thinker, {**body, "seed": 1})
    calls = choice["message"]["tool_calls"]
    assert len(calls) > 1
    assert choice["finish_reason"] == "length"
    assert len({call["id"] for call in calls}) == len(calls)
    assert without_ids(by_index(streamed(thinker, {**body, "seed": 1}))) == without_ids(calls)


def test_the_model_may_call_and_need_not(thinker: Daemon) -> None:
    body = {"messages": HI, "tools": [LIGHT], "parallel_tool_calls": False, "temperature": 0}
    choice = whole(thinker, body)
    assert choice["message"]["reasoning_content"] == "ab"
    assert choice["message"]["content"] == "cd"
    [call] = choice["message"]["tool_calls"]
    check_call(call)
    assert choice["finish_reason"] == "tool_calls"
    chunks = streamed(thinker, body)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert "".join(delta.get("content") or "" for delta in deltas) == "cd"
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "ab"
    assert without_ids(by_index(chunks)) == [call["function"]]

    choice = whole(thinker, {**body, "logit_bias": {str(CALL): -100}, "max_tokens": 9})
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"].startswith("cd")
    choice = whole(thinker, {**body, "tool_choice": "none"})
    assert choice["message"]["content"] == "cd"
    assert choice["finish_reason"] == "stop"


def test_a_call_that_is_cut_off_is_not_claimed(daemon: Daemon) -> None:
    choice = whole(daemon, {**FORCED, "max_tokens": 2})
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]


def test_an_answer_beside_tools_may_have_a_schema(thinker: Daemon) -> None:
    answer = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["yes", "no"]}}}
    body = {"messages": HI, "tools": [NOW], "response_format": answer, "logit_bias": {str(CALL): -100}}
    assert json.loads(whole(thinker, body)["message"]["content"]) in ("yes", "no")


def test_calls_and_results_come_back(daemon: Daemon) -> None:
    [call] = whole(daemon, FORCED)["message"]["tool_calls"]
    messages = [
        *HI,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "done"}], "tool_call_id": call["id"]},
    ]
    body = {"messages": messages, "tools": [LIGHT, NOW], "max_tokens": 3}
    assert whole(daemon, body)["finish_reason"] in ("length", "stop")
    refused = daemon.post(CHAT, {**body, "messages": [messages[0], messages[2]]})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "messages[1].tool_call_id"


UNREADABLE = function("f", {"x": {"type": "string", "pattern": "(?=a)", "maxLength": 3}})


def test_a_hint_that_no_grammar_can_express_is_left_out_and_said(daemon: Daemon) -> None:
    response = daemon.post(CHAT, {**FORCED, "tools": [UNREADABLE]})
    assert response.status_code == 200, response.text
    assert "schema of f is not followed in full" in response.headers["x-homespec-notice"]


def test_a_strict_schema_is_followed_or_refused(daemon: Daemon) -> None:
    strict = {"type": "function", "function": {**UNREADABLE["function"], "strict": True}}
    response = daemon.post(CHAT, {**FORCED, "tools": [strict]})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "invalid_constraint"
    with daemon.client() as client, pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="default", **{**FORCED, "tools": [strict], "stream": True})


def test_tools_are_described_to_models_whose_template_knows_none(simple: Daemon, thinker: Daemon) -> None:
    def notice(daemon: Daemon) -> str | None:
        notice: str | None = daemon.post(CHAT, FORCED).headers.get("x-homespec-notice")
        return notice

    assert notice(simple) == "tools described in the system message"
    assert notice(thinker) is None
