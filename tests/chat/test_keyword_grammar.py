"""Calls in Python's notation: either quote, Python's words and JSON's are legal; what the schema forbids is not."""

from __future__ import annotations

import json

import pytest

from homespec.frames import FunctionSpec, ToolUse
from tests.chat.test_tool_grammar import legal

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "on": {"type": "boolean"},
        "note": {"type": ["string", "null"]},
        "size": {"enum": ["s", "it's", 5, True, None]},
        "code": {"type": "string", "pattern": "^[a-z]{2}$"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
        "open": {},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"tree": {"type": "object", "properties": {"sub": {"$ref": "#/$defs/tree"}}}},
}
USE = ToolUse("lfm2", (FunctionSpec("f", json.dumps(SCHEMA)),), required=True)


def is_legal(arguments: str) -> bool:
    return legal(f"<|tool_call_start|>[f({arguments})]<|tool_call_end|>", USE)


@pytest.mark.parametrize(
    "arguments",
    [
        "city='Köln'",
        'city="Köln"',
        "city='a \"b\" \\'c\\''",
        "city=''",
        "city='a', on=True",
        "city='a', on=false, note=None",
        "city='a', note=null",
        "city='a', note='x', size='s'",
        'city="a", size="it\'s"',
        "city='a', size=5, code=\"de\"",
        "city='a', size=True",
        "city='a', size=None",
        "city='a', either=7, open=['x']".replace("'x'", '"x"'),
        "city='a', either=\"ab\", open=True",
        "city='a', open='x', tree={\"sub\": {}}",
    ],
)
def test_what_the_schema_allows_is_legal(arguments: str) -> None:
    assert is_legal(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "city=a",
        "city=5",
        "city='a",
        "city='a' on=True",
        "city='a',on=True",
        "on=True, city='a'",
        "city='a', on='True'",
        "city='a', on=None",
        "city='a', size='m'",
        "city='a', size='it's'",
        "city='a', code='de'",
        "city='a', code=\"deu\"",
        "city='a', either=\"abc\"",
        "city='a', other=1",
        "city='a', tree={'sub': {}}",
    ],
)
def test_what_it_forbids_is_not(arguments: str) -> None:
    assert not is_legal(arguments)


def test_a_function_without_arguments_has_none() -> None:
    empty = FunctionSpec("f", json.dumps({"type": "object", "properties": {}, "additionalProperties": False}))
    use = ToolUse("lfm2", (empty,), required=True)
    assert legal("<|tool_call_start|>[f()]<|tool_call_end|>", use)
    assert not legal("<|tool_call_start|>[f(a=1)]<|tool_call_end|>", use)
