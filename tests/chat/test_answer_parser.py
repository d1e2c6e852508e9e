"""What is read from an answer does not depend on where it was cut, and every format's own calls come back."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.chat.answer_parser import AnswerParser
from homespec.chat.arguments import Braces, Keywords, Tags
from homespec.chat.elements import element_json
from homespec.chat.tool_format import ToolFormat, Tools
from homespec.chat.tool_formats import FORMATS, HARMONY, HERMES
from homespec.wire.answer import Answer

THINK = ("<think>", "</think>")
ROWS = [each for each in FORMATS.values() if each is not HARMONY]
"""Those whose calls are a list."""
CALLS = [("get_weather", {"city": 'Paris "}{" \\'}), ("f", {}), ("f", {"a": [1, {"b": "]}"}]})]


def spelled(tool_format: ToolFormat, calls: Sequence[tuple[str, Any]]) -> str:
    """Calls as the family writes them."""
    each = [
        f"{tool_format.begin}{named(tool_format, name, at)}{arguments(tool_format, value)}{tool_format.end}"
        for at, (name, value) in enumerate(calls)
    ]
    return tool_format.opening + tool_format.separator.join(each) + tool_format.closing


def named(tool_format: ToolFormat, name: str, at: int) -> str:
    """The name, with the call's number where the family writes one."""
    number = f"{at}{tool_format.id_end}" if tool_format.id_end else ""
    return number + name + (f"{tool_format.id_mark}{at}" if tool_format.id_mark else "") + tool_format.middle


def arguments(tool_format: ToolFormat, value: Any) -> str:
    match tool_format.arguments:
        case None:
            return json.dumps(value)
        case Tags() as tags:
            return "".join(tagged(tags, name, each) for name, each in value.items())
        case Braces(quote):
            return braced(quote, value).removeprefix("{")  # which ends the name
        case Keywords():
            return ", ".join(f"{name}={pythonic(each)}" for name, each in value.items())


def tagged(tags: Tags, name: str, value: Any) -> str:
    if tags.nested:
        return nested(tags.nested, name, value)
    if not isinstance(value, str):
        return f"{tags.key}{name}{tags.json_value or tags.value}{json.dumps(value)}{tags.close}"
    opened, closed = tags.wrap if tags.wrap and any(char in value for char in "<&\n") else ("", "")
    return f"{tags.key}{name}{tags.value}{opened}{value}{closed}{tags.close}"


def nested(mark: str, name: str, value: Any) -> str:
    match value:
        case dict():
            inner = "".join(nested(mark, key, each) for key, each in value.items() if each is not None)
        case list():
            inner = "".join(nested(mark, "item", each) for each in value)
        case _:
            inner = value if isinstance(value, str) else json.dumps(value)
    return f"{mark}<{name}>{inner}{mark}</{name}>"


def pythonic(value: Any) -> str:
    """What is inside lists and objects is written as JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else repr(value)


def braced(quote: str, value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{key}:{braced(quote, each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ",".join(braced(quote, each) for each in value) + "]"
        case str():
            return quote + value + quote
        case _:
            return json.dumps(value)


def read(
    parts: Sequence[str], reasoning: tuple[str, str] | None, tools: ToolFormat | None, schemas: Any = None
) -> Answer:
    parser, answer = AnswerParser(reasoning, Tools(tools, schemas or {}) if tools else None), Answer()
    for part in parts:
        for piece in parser.push(part):
            answer.add(piece)
    for piece in parser.finish():
        answer.add(piece)
    return answer


def seen(answer: Answer) -> Any:
    return answer.reasoning, answer.content, [(call.name, call.arguments) for call in answer.calls]


@pytest.mark.parametrize("tool_format", ROWS, ids=lambda each: each.name)
@pytest.mark.parametrize("count", [1, 3])
def test_calls_of_every_format_come_back(tool_format: ToolFormat, count: int) -> None:
    text = spelled(tool_format, CALLS[:count])
    for parts in ([text], list(text)):
        answer = read(parts, None, tool_format)
        assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == CALLS[:count]
        assert answer.content == ""
        assert len({call.id for call in answer.calls}) == count


@pytest.mark.parametrize("tool_format", [each for each in ROWS if each.anywhere], ids=lambda each: each.name)
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
        ("</think>\n\nb", "", "b"),
        ("</thin", "", "</thin"),
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


def test_thinking_may_be_marked_by_words() -> None:
    marks = ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]")
    text = f"{marks[0]}\nTwo and two.\n{marks[1]}\nFour."
    for parts in ([text], list(text)):
        assert seen(read(parts, marks, None)) == ("Two and two.", "Four.", [])


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


TYPED = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "on": {"type": "boolean"},
        "either": {"type": ["integer", "string"]},
        "list": {"type": "array"},
        "colour": {"enum": ["red", "5"]},
        "open": {},
    },
}
PLAIN_TEXT = [
    each
    for each in FORMATS.values()
    if isinstance(each.arguments, Tags) and not (each.arguments.json_value or each.arguments.nested)
]


@pytest.mark.parametrize("tool_format", PLAIN_TEXT, ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "5", "5"),
        ("text", "true", "true"),
        ("text", 'a\n "b" <c> \\', 'a\n "b" <c> \\'),
        ("text", "", ""),
        ("count", "5", 5),
        ("on", "false", False),
        ("on", "False", "False"),
        ("either", "7", 7),
        ("either", "7 days", "7 days"),
        ("either", "1.5", "1.5"),
        ("list", '[1, "x"]', [1, "x"]),
        ("colour", "5", "5"),
        ("open", "5", 5),
        ("open", "five", "five"),
        ("unknown", "{}", {}),
    ],
)
def test_plain_text_is_what_the_schema_says(tool_format: ToolFormat, name: str, text: str, value: Any) -> None:
    tags = tool_format.arguments
    assert isinstance(tags, Tags)
    written = tool_format.start + "f" + tool_format.middle + tags.key + name + tags.value + text + tags.close
    for parts in ([written + tool_format.end], list(written + tool_format.end)):
        [call] = read(parts, None, tool_format, {"f": TYPED}).calls
        assert json.loads(call.arguments) == {name: value}


def test_a_value_that_says_what_it_is_needs_no_schema() -> None:
    text = spelled(
        FORMATS["deepseek_v4"], [("f", {"count": "5", "text": 7, "other": "7", "list": [1, "x"], "no": None})]
    )
    for parts in ([text], list(text)):
        [call] = read(parts, None, FORMATS["deepseek_v4"], {"f": TYPED}).calls
        assert json.loads(call.arguments) == {"count": "5", "text": 7, "other": "7", "list": [1, "x"], "no": None}


def test_a_text_may_be_wrapped() -> None:
    written = (
        '<function name="f"><param name="text"><![CDATA[if a</param> < b]]></param><param name="list"><![CDATA[[1]]]>'
    )
    for parts in ([written + "</param></function>"], list(written + "</param></function>")):
        [call] = read(parts, None, FORMATS["minicpm5"], {"f": TYPED}).calls
        assert json.loads(call.arguments) == {"text": "if a</param> < b", "list": [1]}


def test_elements_are_what_the_schema_says() -> None:
    inner = {"a": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}
    rows = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}}
    types = {"a": {"type": "object", "properties": inner}, "rows": rows, "none": {"type": "array"}}
    value = {"a": {"a": 1, "tags": ["5", "<a>"]}, "rows": [{"n": 1.5}, {}], "none": [], "free": {"x": [True, "y"]}}
    text = spelled(FORMATS["minimax_m3"], [("f", value), ("g", {})])
    for parts in ([text], list(text)):
        first, second = read(parts, None, FORMATS["minimax_m3"], {"f": {"properties": types}}).calls
        assert json.loads(first.arguments) == value
        assert json.loads(second.arguments) == {}


@given(st.text("a<>/im]["))
def test_elements_that_are_no_elements_are_still_read(text: str) -> None:
    assert json.loads(element_json(text.replace("m", "]<]m[>["), {"type": "object"}, "]<]m[>[")) is not None


def test_a_text_is_streamed_as_it_comes() -> None:
    parser = AnswerParser(None, Tools(FORMATS["qwen_xml"], {"f": TYPED}))
    parser.push("<tool_call>\n<function=f>\n<parameter=text>\n")
    assert [piece.text for piece in parser.push('so "far"')] == ['so \\"far\\"']
    assert parser.push("\n</par") == []
    assert [piece.text for piece in parser.push("ty")] == ["\\n</party"]


@given(
    st.sampled_from([each for each in FORMATS.values() if each.arguments is not None and each.name != "minimax_m3"]),
    st.dictionaries(
        st.text("abc_", min_size=1),
        st.recursive(
            st.text('ab<>{}[]:,"\\ \n/') | st.integers() | st.booleans() | st.none(),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=2),
            max_leaves=4,
        ),
        max_size=3,
    ),
    st.data(),
)
def test_arguments_that_are_no_json_come_back(tool_format: ToolFormat, value: Any, data: st.DataObject) -> None:
    schema = {"properties": {key: {"type": "string"} for key, each in value.items() if isinstance(each, str)}}
    text = spelled(tool_format, [("f", value), ("g", {})])
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    answer = read(parts, None, tool_format, {"f": schema})
    assert [(call.name, json.loads(call.arguments)) for call in answer.calls] == [("f", value), ("g", {})]


VALUES = st.recursive(
    st.text("ab'\"\\/\n(){}=,")
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", min_size=1), inner, max_size=2),
    max_leaves=4,
)


@given(st.dictionaries(st.text("abc_", min_size=1), VALUES, max_size=3), st.data())
def test_python_s_own_notation_comes_back(value: Any, data: st.DataObject) -> None:
    text = f"<|tool_call_start|>[f({', '.join(f'{key}={each!r}' for key, each in value.items())})]<|tool_call_end|>"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    [call] = read(parts, None, FORMATS["lfm2"]).calls
    assert json.loads(call.arguments) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'C:\\users'", "C:\\users"),
        ("'caf\\u00e9'", "café"),
        ("(1, 2)", [1, 2]),
        ("true", True),
        ("red", "red"),
        ("007", "007"),
    ],
)
def test_what_is_not_quite_python_is_still_read(text: str, value: Any) -> None:
    [call] = read(list(f"<|tool_call_start|>[f(x={text})]<|tool_call_end|>"), None, FORMATS["lfm2"]).calls
    assert json.loads(call.arguments) == {"x": value}


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
            "<function=f>\n",
            "<parameter=x>\n",
            "\n</parameter>\n",
        ]
    ),
    max_size=14,
).map("".join)


@given(
    TEXTS | st.text(),
    st.sampled_from([None, THINK]),
    st.sampled_from([None, HERMES, FORMATS["llama3"], FORMATS["mistral"], FORMATS["qwen_xml"]]),
    st.data(),
)
def test_portions_do_not_matter(text: str, reasoning: Any, tools: Any, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert seen(read(parts, reasoning, tools)) == seen(read([text], reasoning, tools))


@given(st.text("ab <{}", max_size=30), st.text("ab <{}", max_size=30), st.lists(st.integers(0, 80), max_size=6))
def test_every_piece_says_where_it_stands(thought: str, said: str, at: list[int]) -> None:
    text = f"<think>{thought}</think>{said}" + spelled(HERMES, CALLS[:1])
    edges = [0, *sorted(place % len(text) for place in at), len(text)]
    parser = AnswerParser(THINK, Tools(HERMES, {}))
    pieces = [
        piece for start, end in itertools.pairwise(edges) for piece in parser.push(text[start:end])
    ] + parser.finish()
    for piece in pieces:
        if piece.kind in ("reasoning", "content"):
            assert text[piece.at : piece.at + len(piece.text)] == piece.text
