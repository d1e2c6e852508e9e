"""What is read from an answer does not depend on where it was cut, and every format's own calls come back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.chat.answer_parser import AnswerParser
from homespec.chat.tool_format import FORMATS, HERMES, ToolFormat
from homespec.wire.answer import Answer

THINK = ("<think>", "</think>")
CALLS = [("get_weather", {"city": 'Paris "}{" \\'}), ("f", {}), ("f", {"a": [1, {"b": "]}"}]})]


def spelled(tool_format: ToolFormat, calls: Sequence[tuple[str, Any]]) -> str:
    """Calls as the family writes them."""
    each = [
        f"{tool_format.begin}{name}{tool_format.middle}{json.dumps(value)}{tool_format.end}" for name, value in calls
    ]
    return tool_format.opening + tool_format.separator.join(each) + tool_format.closing


def read(parts: Sequence[str], reasoning: tuple[str, str] | None, tools: ToolFormat | None) -> Answer:
    parser, answer = AnswerParser(reasoning, tools), Answer()
    for part in parts:
        for piece in parser.push(part):
            answer.add(piece)
    for piece in parser.finish():
        answer.add(piece)
    return answer


def seen(answer: Answer) -> Any:
    return answer.reasoning, answer.content, [(call.name, call.arguments) for call in answer.calls]


@pytest.mark.parametrize("tool_format", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("count", [1, 3])
def test_calls_of_every_format_come_back(tool_format: ToolFormat, count: int) -> None:
    text = spelled(tool_format, CALLS[:count])
    for parts in ([text], list(text)):
        answer = read(parts, None, tool_format)
        assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == CALLS[:count]
        assert answer.content == ""
        assert len({call.id for call in answer.calls}) == count


@pytest.mark.parametrize(
    "tool_format", [each for each in FORMATS.values() if each.anywhere], ids=lambda each: each.name
)
def test_text_may_come_first(tool_format: ToolFormat) -> None:
    text = "<think>\nhm\n</think>\n\nLet me see.\n\n" + spelled(tool_format, CALLS[:2])
    answer = read(list(text), THINK, tool_format)
    assert (answer.reasoning, answer.content) == ("hm", "Let me see.")
    assert [call.name for call in answer.calls] == ["get_weather", "f"]


def test_a_format_without_a_marker_calls_at_the_start_only() -> None:
    llama = FORMATS["llama3"]
    text = '{"name": "f", "parameters": {}}'
    assert read([text], None, llama).calls[0].name == "f"
    assert read(["<|python_tag|>" + text], None, llama).calls[0].name == "f"
    assert read(["<think></think>\n\n" + text], THINK, llama).calls[0].name == "f"
    answer = read(["As JSON: " + text], None, llama)
    assert (answer.content, answer.calls) == ("As JSON: " + text, [])
    assert read(['{"name": 5}'], None, llama).content == '{"name": 5}'


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("hello", "", "hello"),
        (" hello \n", "", " hello \n"),
        ("<think>a</think>b", "a", "b"),
        ("\n<think>\n\n a b \n</think>\n\n b \n", "a b", "b \n"),
        ("<think></think>b", "", "b"),
        ("<think>cut o", "cut o", ""),
        ("<think>cut</thi", "cut</thi", ""),
        ("<thin", "", "<thin"),
        ("a <think>b</think>", "", "a <think>b</think>"),
        ("<think>a</think>b</think>c", "a", "b</think>c"),
        ("", "", ""),
    ],
)
def test_thinking(text: str, reasoning: str, content: str) -> None:
    for parts in ([text], list(text)):
        assert seen(read(parts, THINK, None)) == (reasoning, content, [])


def test_without_markers_nothing_is_split() -> None:
    text = "<think>a</think><tool_call>b"
    assert seen(read(list(text), None, None)) == ("", text, [])


def test_what_only_looks_like_a_call_is_content() -> None:
    text = 'Write <tool_call> like so: <tool_call>{"x"} end'
    assert seen(read(list(text), None, HERMES)) == ("", text, [])


def test_a_call_that_is_cut_off_keeps_what_there_is() -> None:
    whole = "ok\n" + spelled(HERMES, [("f", {"a": "bc"})])
    at = whole.index("bc") + 1
    assert seen(read([whole[:at]], None, HERMES)) == ("", "ok", [("f", '{"a": "b')])
    assert seen(read([whole[: whole.index("f")]], None, HERMES)) == ("", "ok", [])


TEXTS = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<tool_call>",
            "\n",
            " ",
            "a",
            "<",
            '{"name": "',
            'f", "arguments": ',
            "{}",
            "}",
            "</tool_call>",
        ]
    ),
    max_size=14,
).map("".join)


@given(
    TEXTS | st.text(),
    st.sampled_from([None, THINK]),
    st.sampled_from([None, HERMES, FORMATS["llama3"], FORMATS["mistral"]]),
    st.data(),
)
def test_portions_do_not_matter(text: str, reasoning: Any, tools: Any, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert seen(read(parts, reasoning, tools)) == seen(read([text], reasoning, tools))
