"""Of the grammars for tool calls: what each family writes is legal, and a broken call is not."""

from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher, LLTokenizer

from homespec.chat.argument_grammar import gaps_of
from homespec.chat.arguments import Tags
from homespec.chat.tool_format import ToolFormat
from homespec.chat.tool_formats import FORMATS, HERMES
from homespec.chat.tool_grammar import tool_grammar
from homespec.frames import FunctionSpec, ToolUse
from tests.chat.test_answer_parser import ROWS, spelled

TOKENIZER = LLTokenizer("byte")
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
NONE = {"type": "object", "properties": {}, "additionalProperties": False}
DIAL = {
    "type": "object",
    "properties": {
        "mode": {"enum": ["low", "high"]},
        "level": {"type": "integer"},
        "steps": {"type": "array", "items": {"type": "object", "properties": {"t": {"type": "number"}}}},
        "note": {"type": ["string", "null"]},
    },
    "required": ["level"],
    "additionalProperties": False,
}
FUNCTIONS = (
    FunctionSpec("get_weather", json.dumps(CITY)),
    FunctionSpec("now", json.dumps(NONE)),
    FunctionSpec("dial", json.dumps(DIAL)),
)
PARIS = ("get_weather", {"city": "Paris"})
THINK = ("<think>", "</think>")


def use(
    tool_format: ToolFormat, *, required: bool = False, parallel: bool = True, answer: str | None = None
) -> ToolUse:
    return ToolUse(tool_format.name, FUNCTIONS, required=required, parallel=parallel, answer_schema=answer)


def legal(text: str, asked: ToolUse, reasoning: tuple[str, str] | None = None, *, in_reasoning: bool = False) -> bool:
    """Whether `text` is a whole answer."""
    grammar = tool_grammar(asked, FORMATS[asked.tool_format], {}, reasoning=reasoning, in_reasoning=in_reasoning)
    matcher = LLMatcher(TOKENIZER, LLMatcher.grammar_from_lark(grammar), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    token_ids = TOKENIZER.tokenize_str(text)
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


@pytest.fixture(params=ROWS, ids=lambda each: each.name)
def tool_format(request: pytest.FixtureRequest) -> ToolFormat:
    each: ToolFormat = request.param
    return each


def test_calls_are_legal(tool_format: ToolFormat) -> None:
    for required in (False, True):
        assert legal(spelled(tool_format, [PARIS]), use(tool_format, required=required))
        assert legal(spelled(tool_format, [PARIS, ("now", {})]), use(tool_format, required=required))


def test_one_call_is_one_call(tool_format: ToolFormat) -> None:
    asked = use(tool_format, required=True, parallel=False)
    assert legal(spelled(tool_format, [PARIS]), asked)
    assert not legal(spelled(tool_format, [PARIS, PARIS]), asked)


@pytest.mark.parametrize(
    "arguments",
    [
        {"level": 3},
        {"mode": "low", "level": -1},
        {"mode": "high", "level": 3, "steps": [{"t": 1.5}, {}], "note": 'a {"b"}'},
        {"level": 0, "steps": [], "note": ""},
    ],
)
def test_arguments_that_fit_are_legal(tool_format: ToolFormat, arguments: object) -> None:
    for required in (False, True):
        assert legal(spelled(tool_format, [("dial", arguments), PARIS]), use(tool_format, required=required))


@pytest.mark.parametrize(
    "call",
    [
        ("get_weather", {}),
        ("now", {"x": 1}),
        ("other", {}),
        ("dial", {"mode": "low"}),
        ("dial", {"mode": "mid", "level": 3}),
        ("dial", {"level": "three"}),
        ("dial", {"level": 3, "steps": "none"}),
        ("dial", {"level": 3, "x": 1}),
    ],
)
def test_a_call_that_does_not_fit_is_not_legal(tool_format: ToolFormat, call: tuple[str, object]) -> None:
    for required in (False, True):
        assert not legal(spelled(tool_format, [call]), use(tool_format, required=required))


def test_a_text_is_no_number_where_values_have_types(tool_format: ToolFormat) -> None:
    """Between tags everything is text, unless they say that it is not."""
    is_text = isinstance(tool_format.arguments, Tags) and not tool_format.arguments.json_value
    assert legal(spelled(tool_format, [("get_weather", {"city": 5})]), use(tool_format)) is is_text


@pytest.mark.parametrize("name", ["qwen_xml", "glm", "gemma", "lfm2", "deepseek_v4", "minicpm5"])
def test_functions_without_a_schema_take_what_comes(name: str) -> None:
    anything = {"type": "object"}
    asked = ToolUse(name, (FunctionSpec("f", json.dumps(anything)),), required=True)
    for arguments in ({}, {"a": "b"}, {"a": 1, "b": "two\nlines", "c": [1, {"d": "e"}]}):
        assert legal(spelled(FORMATS[name], [("f", arguments)]), asked)


def test_a_text_that_could_end_early_is_wrapped() -> None:
    asked = use(FORMATS["minicpm5"], required=True)
    wrapped = spelled(FORMATS["minicpm5"], [("get_weather", {"city": "a </param> & b\nc"})])
    assert legal(wrapped, asked)
    assert not legal(wrapped.replace("<![CDATA[", "").replace("]]>", ""), asked)


def test_elements_are_followed_inside_and_out() -> None:
    inner = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "way": {"enum": ["up", "down"]}},
        "required": ["n"],
    }
    schema = {"type": "object", "properties": {"rows": {"type": "array", "items": inner}, "free": {}}}
    asked = ToolUse("minimax_m3", (FunctionSpec("f", json.dumps(schema)),), required=True)

    def is_legal(arguments: object) -> bool:
        return legal(spelled(FORMATS["minimax_m3"], [("f", arguments)]), asked)

    assert is_legal({"rows": [{"n": 1, "way": "up"}, {"n": 2}], "free": {"x": [1, {"y": "z"}]}})
    assert is_legal({"rows": [], "free": "text"})
    assert not is_legal({"rows": [{"way": "up"}]})
    assert not is_legal({"rows": [{"n": "one"}]})
    assert not is_legal({"rows": "none"})


def test_a_schema_that_refers_to_itself_is_followed() -> None:
    tree = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/tree"}},
        "required": ["tree"],
        "$defs": {
            "tree": {"type": "object", "properties": {"name": {"type": "string"}, "sub": {"$ref": "#/$defs/tree"}}}
        },
    }
    asked = ToolUse("gemma", (FunctionSpec("f", json.dumps(tree)),), required=True)
    nested = {"tree": {"name": "a", "sub": {"name": "b", "sub": {}}}}
    assert legal(spelled(FORMATS["gemma"], [("f", nested)]), asked)


@pytest.mark.parametrize(
    ("name", "schema", "gaps"),
    [
        ("hermes", {"pattern": "a"}, []),
        ("qwen_xml", {"pattern": "a"}, ["pattern"]),
        ("qwen_xml", {"minLength": 1, "maxLength": 5}, ["maxLength", "minLength"]),
        ("glm", {"enum": ["a"]}, []),
        ("lfm2", {"pattern": "a"}, []),
        ("gemma", {"format": "date"}, ["format"]),
        ("gemma", {"type": "object", "properties": {"pattern": {"minLength": 1}}}, ["minLength"]),
    ],
)
def test_what_plain_text_cannot_be_held_to_is_known(name: str, schema: dict[str, object], gaps: list[str]) -> None:
    whole = {"type": "object", "properties": {"x": {"type": "string", **schema}}}
    assert gaps_of(FORMATS[name].arguments, whole) == gaps


def test_text_is_an_answer_unless_a_call_is_required(tool_format: ToolFormat) -> None:
    assert legal("It is { sunny }.\n", use(tool_format))
    assert not legal("It is sunny.", use(tool_format, required=True))


def test_text_in_front_of_a_call(tool_format: ToolFormat) -> None:
    text = "Let me see.\n" + spelled(tool_format, [PARIS])
    assert legal(text, use(tool_format))
    assert not legal(text, use(tool_format, required=True))


def test_thinking_is_free_and_comes_first(tool_format: ToolFormat) -> None:
    call = spelled(tool_format, [PARIS])
    thought = f"<think>\nPerhaps {tool_format.trigger} or not\n</think>\n\n"
    for required in (False, True):
        asked = use(tool_format, required=required)
        assert legal(thought + call, asked, THINK)
        assert legal(call, asked, THINK)
        assert legal(thought.removeprefix("<think>") + call, asked, THINK, in_reasoning=True)
    assert legal(thought + "It is sunny.", use(tool_format), THINK)
    assert not legal(call, use(tool_format, required=True), THINK, in_reasoning=True)


@pytest.mark.parametrize("name", ["kimi_k2", "command_r", "mistral_ids"])
def test_ids_of_calls_are_short(name: str) -> None:
    text = spelled(FORMATS[name], [PARIS])
    sign = FORMATS[name].id_mark or '_id": "'
    assert legal(text.replace(f"{sign}0", f"{sign}abcDEF012"), use(FORMATS[name], required=True))
    assert not legal(text.replace(f"{sign}0", sign + 13 * "7"), use(FORMATS[name], required=True))


def test_an_id_behind_a_name_may_be_left_out() -> None:
    text = spelled(FORMATS["mistral_ids"], [PARIS]).replace("[CALL_ID]0", "")
    assert legal(text, use(FORMATS["mistral_ids"], required=True))


def test_an_answer_that_is_not_a_call_may_have_a_schema_too() -> None:
    asked = use(HERMES, answer=json.dumps({"type": "integer"}))
    assert legal("42", asked)
    assert legal(spelled(HERMES, [PARIS]), asked)
    assert not legal("sunny", asked)


def test_markers_that_are_tokens_are_written_as_such() -> None:
    grammar = tool_grammar(use(HERMES), HERMES, {"<tool_call>": 7, "</tool_call>": 8, "<think>": 5}, reasoning=THINK)
    assert "head: TEXT <[7]>" in grammar
    assert "<[8]>" in grammar
    assert '"<tool_call>' not in grammar
