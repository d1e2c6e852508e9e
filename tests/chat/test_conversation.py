from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from homespec.chat.conversation import prepare
from homespec.errors import RequestError
from homespec.status import ChatFormat

NATIVE = ChatFormat("chatml", "the model file", tool_format="hermes")
PLAIN = replace(NATIVE, tool_format=None)
TOOL = {"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}
USER = {"role": "user", "content": "hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": "é"}'}}
ASKED = {"role": "assistant", "content": "", "tool_calls": [CALL]}
RESULT = {"role": "tool", "content": "42", "tool_call_id": "call_1"}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def test_what_the_template_takes_is_left_alone() -> None:
    messages = [system("a"), USER, assistant("b"), USER, USER]
    conversation = prepare(messages, [TOOL], NATIVE)
    assert conversation.messages == messages
    assert conversation.tools == [TOOL]
    assert conversation.notices == ()


@pytest.mark.parametrize(("takes_objects", "arguments"), [(True, {"a": "é"}), (False, '{"a": "é"}')])
def test_arguments_come_as_the_template_wants_them(takes_objects: bool, arguments: Any) -> None:
    conversation = prepare([USER, ASKED, RESULT], [TOOL], replace(NATIVE, takes_objects=takes_objects))
    assert conversation.messages[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": arguments}
    assert conversation.messages[2] == RESULT


def test_broken_arguments_do_not_end_the_conversation() -> None:
    broken = {**CALL, "function": {"name": "f", "arguments": '{"a": "cut o'}}
    conversation = prepare([USER, {**ASKED, "tool_calls": [broken]}, RESULT], [TOOL], NATIVE)
    assert conversation.messages[1]["tool_calls"][0]["function"]["arguments"] == {"arguments": '{"a": "cut o'}


@pytest.mark.parametrize("calls", ["f", [5], [{}], [{"id": "1", "function": {"arguments": "{}"}}]])
def test_what_is_not_a_call_is_named(calls: Any) -> None:
    with pytest.raises(RequestError) as caught:
        prepare([USER, {**assistant(""), "tool_calls": calls}], [], NATIVE)
    assert str(caught.value.info.param).startswith("messages[1].tool_calls")


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([USER, RESULT], "messages[1].tool_call_id"),
        ([USER, ASKED, RESULT, {**RESULT, "tool_call_id": "other"}], "messages[3].tool_call_id"),
        ([USER, ASKED, {"role": "tool", "content": "42"}], "messages[2].tool_call_id"),
        ([RESULT, ASKED], "messages[0].tool_call_id"),
    ],
)
def test_a_result_without_its_call_is_refused_with_its_position(messages: Any, param: str) -> None:
    for template in (NATIVE, PLAIN):
        with pytest.raises(RequestError) as caught:
            prepare(messages, [TOOL], template)
        assert caught.value.info.param == param


def test_tools_are_described_where_the_template_knows_none() -> None:
    conversation = prepare([system("Be kind."), USER, ASKED, RESULT], [TOOL], PLAIN)
    assert conversation.tools == []
    first, _, call, result = conversation.messages
    assert first["content"].startswith("Be kind.\n\n")
    assert json.dumps(TOOL) in first["content"]
    assert call == assistant('<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>')
    assert result == user("<tool_response>\n42\n</tool_response>")
    assert conversation.notices == ("tools described in the system message",)
    assert prepare([USER], [TOOL], PLAIN).messages[0]["role"] == "system"


def test_calls_that_the_template_leaves_out_are_spelled_in_its_family_s_form() -> None:
    silent = replace(NATIVE, tool_format="granite", writes_calls=False, takes_objects=False)
    conversation = prepare([USER, {**ASKED, "content": "Wait."}, RESULT], [TOOL], silent)
    assert conversation.messages == [
        USER,
        assistant('Wait.\n<|tool_call|>[{"name": "f", "arguments": {"a": "é"}}]'),
        RESULT,
    ]
    assert conversation.tools == [TOOL]


@pytest.mark.parametrize("template", [PLAIN, replace(NATIVE, tool_format="qwen_xml", writes_calls=False)])
def test_arguments_that_are_no_object_are_spelled_too(template: ChatFormat) -> None:
    odd = {**CALL, "function": {"name": "f", "arguments": "[5]"}}
    messages = prepare([USER, {**ASKED, "tool_calls": [odd]}, RESULT], [], template).messages
    assert "arguments" in messages[1]["content"]
    assert "[5]" in messages[1]["content"]


def test_a_system_message_is_folded_where_there_is_no_such_role() -> None:
    template = replace(NATIVE, takes_system=False)
    conversation = prepare([system("a"), USER, assistant("b"), system("c"), user("d")], [], template)
    assert conversation.messages == [user("a\n\nhi"), assistant("b"), user("c\n\nd")]
    assert conversation.notices == ("system message folded into the user's",)
    assert prepare([system("a")], [], template).messages == [user("a")]


def test_neighbours_are_merged_where_roles_must_alternate() -> None:
    template = replace(NATIVE, takes_neighbours=False)
    conversation = prepare([USER, user("a"), assistant("b"), assistant(""), USER], [], template)
    assert conversation.messages == [user("hi\n\na"), assistant("b"), USER]
    assert conversation.notices == ("neighbouring messages of one role merged",)
    assert prepare([USER, assistant("a"), USER], [], template).notices == ()


def test_the_last_word_of_the_assistant_is_gone_on_from() -> None:
    conversation = prepare([USER, assistant("The answer")], [], NATIVE)
    assert (conversation.messages, conversation.prefill) == ([USER], "The answer")
    assert prepare([USER, ASKED], [], NATIVE).prefill == ""


def test_ids_fit_mistral_s_templates() -> None:
    conversation = prepare([USER, ASKED, RESULT], [TOOL], replace(NATIVE, tool_format="mistral"))
    call_id = conversation.messages[1]["tool_calls"][0]["id"]
    assert len(call_id) == 9
    assert conversation.messages[2]["tool_call_id"] == call_id
