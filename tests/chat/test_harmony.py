"""gpt-oss's channels."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from homespec.chat.answer_parser import AnswerParser
from homespec.chat.harmony import HarmonyParser, harmony_grammar, make_parser
from homespec.chat.tool_format import Tools
from homespec.chat.tool_formats import FORMATS, HARMONY, HARMONY_REASONING, HERMES
from homespec.frames import FunctionSpec, ToolUse
from homespec.wire.answer import Answer

THOUGHT = "<|channel|>analysis<|message|> Paris, then.<|end|><|start|>assistant"
CALL = '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}'
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def read(parts: Sequence[str], tools: Tools | None = None) -> tuple[str, str, list[tuple[str, str]]]:
    parser, answer = HarmonyParser(tools), Answer()
    pieces = [piece for part in parts for piece in parser.push(part)]
    for piece in [*pieces, *parser.finish()]:
        answer.add(piece)
    return answer.reasoning, answer.content, [(call.name, call.arguments) for call in answer.calls]


@pytest.mark.parametrize(
    ("text", "reasoning", "content", "calls"),
    [
        ("<|channel|>final<|message|>Hello.", "", "Hello.", []),
        (THOUGHT + "<|channel|>final<|message|>Hello. \n", "Paris, then.", "Hello. \n", []),
        (THOUGHT + CALL, "Paris, then.", "", [("get_weather", '{"city": "Paris"}')]),
        (
            THOUGHT + ' to=functions.now<|channel|>commentary json<|message|>{"a": {"b": "}"}}',
            "Paris, then.",
            "",
            [("now", '{"a": {"b": "}"}}')],
        ),
        (
            "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant" + CALL,
            "",
            "I look.",
            [("get_weather", '{"city": "Paris"}')],
        ),
        (CALL + "<|call|><|start|>assistant" + CALL, "", "", [("get_weather", '{"city": "Paris"}')] * 2),
        ("<|channel|>analysis<|message|>cut o", "cut o", "", []),
        ("<|channel|>analysis<|message|>cut o<|end", "cut o<|end", "", []),
        ("<|channel|>fin", "", "", []),
        (CALL[:-4], "", "", [("get_weather", '{"city": "Par')]),
        ('{"city": "Paris"}', "", '{"city": "Paris"}', []),
        (" and so on", "", " and so on", []),
        ("a", "", "a", []),
        ("", "", "", []),
    ],
)
def test_channels(text: str, reasoning: str, content: str, calls: list[tuple[str, str]]) -> None:
    for parts in ([text], list(text)):
        assert read(parts) == (reasoning, content, calls)


TEXTS = st.lists(
    st.sampled_from(
        [
            "<|channel|>",
            "analysis",
            "final",
            "commentary",
            " to=functions.f",
            "<|message|>",
            "<|end|>",
            "<|start|>",
            "{}",
        ]
    )
    | st.sampled_from(["assistant", " ", "a", "<|", '{"x": 1}', "\n"]),
    max_size=14,
).map("".join)


@given(TEXTS, st.data())
def test_portions_do_not_matter(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(parts) == read([text])


def test_the_parser_is_chosen_by_the_template() -> None:
    assert type(make_parser(HARMONY_REASONING, None)) is HarmonyParser
    assert type(make_parser(None, Tools(HARMONY))) is HarmonyParser
    assert type(make_parser(("<think>", "</think>"), Tools(HERMES))) is AnswerParser


def legal(text: str, *, required: bool = False, answer: str | None = None) -> bool:
    functions = (FunctionSpec("get_weather", json.dumps(CITY)), FunctionSpec("now", '{"type": "object"}'))
    use = ToolUse(HARMONY.name, functions, required=required, answer_schema=answer)
    tokenizer = LLTokenizer("byte")
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(harmony_grammar(use, {})), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    token_ids = tokenizer.tokenize_str(text)
    return matcher.try_consume_tokens(token_ids) == len(token_ids) and matcher.is_accepting()


def test_what_is_legal() -> None:
    early = ' to=functions.now<|channel|>commentary json<|message|>{"a": 1}'
    final = "<|channel|>final<|message|>It is <sunny>."
    preamble = "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"
    for call in (CALL, early):
        for before in ("", THOUGHT):
            assert legal(before + call)
            assert legal(before + call, required=True)
        assert legal(preamble + call)
        assert not legal(preamble + call, required=True)
    assert legal(THOUGHT + final)
    assert not legal(final, required=True)
    assert legal("<|channel|>final<|message|>42", answer='{"type": "integer"}')
    assert not legal(final, answer='{"type": "integer"}')


@pytest.mark.parametrize(
    "broken", [CALL.replace("get_weather", "other"), CALL.replace('"Paris"', "5"), CALL[:-1], "Hi"]
)
def test_what_is_not(broken: str) -> None:
    assert not legal(broken)


def test_markers_that_are_tokens_are_written_as_such() -> None:
    use = ToolUse(HARMONY.name, (FunctionSpec("f", "{}"),))
    grammar = harmony_grammar(use, {marker: index for index, marker in enumerate(FORMATS["harmony"].markers)})
    assert '"<|' not in grammar
