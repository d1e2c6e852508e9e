"""Of the grammars for tool calls: what each family writes is legal, and a broken call is not."""

from __future__ import annotations

import json

import pytest
from llguidance import LLMatcher, LLTokenizer

from homespec.chat.tool_format import FORMATS, HERMES, ToolFormat
from homespec.chat.tool_grammar import tool_grammar
from homespec.frames import FunctionSpec, ToolUse
from tests.chat.test_answer_parser import spelled

TOKENIZER = LLTokenizer("byte")
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
NONE = {"type": "object", "properties": {}, "additionalProperties": False}
FUNCTIONS = (FunctionSpec("get_weather", json.dumps(CITY)), FunctionSpec("now", json.dumps(NONE)))
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


@pytest.fixture(params=FORMATS.values(), ids=list(FORMATS))
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


@pytest.mark.parametrize("call", [("get_weather", {}), ("get_weather", {"city": 5}), ("now", {"x": 1}), ("other", {})])
def test_a_call_that_does_not_fit_is_not_legal(tool_format: ToolFormat, call: tuple[str, object]) -> None:
    for required in (False, True):
        assert not legal(spelled(tool_format, [call]), use(tool_format, required=required))


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
