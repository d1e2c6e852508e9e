"""Families are told by what a template writes around a call, not by its words."""

from __future__ import annotations

import pytest

from homespec.chat.tool_format import ToolFormat
from homespec.chat.tool_formats import FORMATS, HARMONY
from homespec.chat.tool_probe import KEY, NAME, VALUE, read_call
from tests.chat.test_answer_parser import spelled

CONVERSATION = "<turn>user\nQuestion<end>\n<turn>model\n{}<end>\n"
PLAIN = CONVERSATION.format("Answer")
THINK = ("<think>", "</think>")
JSON = f'{{"{KEY}": "{VALUE}"}}'
HERMES_CALL = f'<tool_call>\n{{"name": "{NAME}", "arguments": {JSON}}}\n</tool_call>'
LLAMA_CALL = f'{{"name": "{NAME}", "parameters": {JSON}}}'
HARMONY_CALL = f"<|channel|>commentary to=functions.{NAME} <|constrain|>json<|message|>{JSON}<|call|>"


def family(text: str) -> str | None:
    """Of a call that is written like this."""
    call = read_call(CONVERSATION.replace("{}", text), PLAIN, THINK)
    assert call is not None
    return call.tool_format


def probe_of(tool_format: ToolFormat) -> str:
    return HARMONY_CALL if tool_format is HARMONY else spelled(tool_format, [(NAME, {KEY: VALUE})])


@pytest.mark.parametrize("tool_format", FORMATS.values(), ids=FORMATS)
def test_every_family_is_told_by_its_own_spelling(tool_format: ToolFormat) -> None:
    assert family(probe_of(tool_format)) == tool_format.name
    assert family(f"<think></think>\n{probe_of(tool_format)}<eot>") == tool_format.name


def test_either_order_of_a_header_is_harmony() -> None:
    assert family(f" to=functions.{NAME}<|channel|>commentary json<|message|>{JSON}<|call|>") == "harmony"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HERMES_CALL.replace("\n", ""), "hermes"),
        (HERMES_CALL.replace(" ", ""), "hermes"),
        (f'[TOOL_CALLS][{{"name": "{NAME}", "arguments": {JSON}, "id": "abcdefghi"}}]', "mistral"),
    ],
)
def test_space_and_ids_make_no_other_family(text: str, expected: str) -> None:
    assert family(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        f"<calls>{HERMES_CALL}</calls>",
        f"<call>{LLAMA_CALL}</call>",
        f"Calls: {LLAMA_CALL}",
        HERMES_CALL.replace("arguments", "args"),
        HERMES_CALL.replace("tool_call", "call"),
        HERMES_CALL.replace(JSON, f"'{JSON}'"),
        HERMES_CALL.replace('"', "'"),
        f"<tool_call>{NAME}({KEY}={VALUE})</tool_call>",
    ],
)
def test_a_form_that_no_family_writes_is_none_of_theirs(text: str) -> None:
    assert family(text) is None


def test_an_unknown_form_is_shown_on_one_line() -> None:
    call = read_call(CONVERSATION.replace("{}", f"<call>\n{NAME}" + "x" * 1000), PLAIN, None)
    assert call is not None
    assert call.text.startswith(f"<call> {NAME}")
    assert len(call.text) <= 200


def test_a_call_that_is_left_out_was_not_written() -> None:
    assert read_call(CONVERSATION.replace("{}", ""), PLAIN, None) is None
    described = f"<turn>system\n{NAME}<end>\n"
    assert read_call(described + CONVERSATION.replace("{}", ""), described + PLAIN, None) is None
