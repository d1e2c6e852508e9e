"""A grammar for answers that may, or must, call tools. In Lark as llguidance reads it.

Text before a call is free. From the first character of a call on only well-formed calls of known functions are legal,
with arguments that fit the function's schema: a call that begins cannot come out broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from homespec.chat.tool_format import ToolFormat
from homespec.frames import ToolUse

_TEXT = "TEXT: /(?s:.*)/"
_SPACE = r"SPACE: /[ \n]{1,4}/"


def tool_grammar(
    use: ToolUse,
    tool_format: ToolFormat,
    tokens: Mapping[str, int],
    *,
    reasoning: tuple[str, str] | None = None,
    in_reasoning: bool = False,
) -> str:
    """The grammar's text.

    tokens: the markers that this vocabulary holds as one special token, which text never matches.
    in_reasoning: the prompt ends inside a thinking block that the answer must close first.
    """
    spell = _Speller(tokens)
    rules = [*_thinking(reasoning, spell, in_reasoning=in_reasoning), _body(use, tool_format, spell)]
    calls = f"{spell(tool_format.begin)} function" if tool_format.begin else "function"
    more = f" ({spell(tool_format.separator + tool_format.begin)} function)*" if use.parallel else ""
    closing = f" {spell(tool_format.closing)}" if tool_format.closing else ""
    rules += [f"calls_after_trigger: {_after_trigger(tool_format, spell)}function{more}{closing}"]
    rules += [f"calls: {spell(tool_format.opening) + ' ' if tool_format.opening else ''}{calls}{more}{closing}"]
    rules += ["function: " + " | ".join(f"function_{index}" for index in range(len(use.functions)))]
    for index, function in enumerate(use.functions):
        head = spell(function.name + tool_format.middle)
        end = f" {spell(tool_format.end)}" if tool_format.end else ""
        rules.append(f"function_{index}: {head} %json {function.schema}{end}")
    return "\n".join([*rules, _TEXT, _SPACE])


class _Speller:
    """A text as grammar symbols: markers that are tokens by their id, the rest between quotes."""

    def __init__(self, tokens: Mapping[str, int]) -> None:
        self.tokens = tokens
        self._split = re.compile("|".join(f"({re.escape(marker)})" for marker in tokens)) if tokens else None

    def __call__(self, text: str) -> str:
        parts = [part for part in self._split.split(text) if part] if self._split else [text]
        return " ".join(
            f"<[{self.tokens[part]}]>" if part in self.tokens else json.dumps(part, ensure_ascii=False)
            for part in parts
            if part
        )


def _thinking(reasoning: tuple[str, str] | None, spell: _Speller, *, in_reasoning: bool) -> list[str]:
    if reasoning is None:
        return ["start: body"]
    start, end = reasoning
    # A lazy terminal ends at its first match, so text cannot swallow the marker.
    rest = f"TEXT {spell(end)}"
    rules = [f"rest: {rest}" if end in spell.tokens else f"rest[lazy]: {rest}"]
    if in_reasoning:
        return ["start: rest body", *rules]
    opening = f"think: {spell(start)}" if start in spell.tokens else f"think[lazy]: {spell(start)}"
    return ["start: think rest body | body", opening, *rules]


def _body(use: ToolUse, tool_format: ToolFormat, spell: _Speller) -> str:
    prefix = f"({spell(tool_format.prefix)})? " if tool_format.prefix else ""
    if use.required:
        return f"body: SPACE? {prefix}calls"
    if use.answer_schema is not None:
        return f"body: SPACE? %json {use.answer_schema} | SPACE? {prefix}calls"
    if not tool_format.anywhere:
        # Here a call has no marker: an answer that starts like one is one.
        start = re.escape(tool_format.start).replace("/", r"\/").replace(r"\ ", " ")
        return f"body: PLAIN | {prefix}calls\nPLAIN: TEXT & ~/(?s:{start}.*)/"
    lazy = "" if tool_format.trigger in spell.tokens else "[lazy]"
    head = f"head{lazy}: TEXT {spell(tool_format.trigger)}"
    return f"body: TEXT | head calls_after_trigger\n{head}"


def _after_trigger(tool_format: ToolFormat, spell: _Speller) -> str:
    rest = tool_format.start.removeprefix(tool_format.trigger)
    return f"{spell(rest)} " if rest else ""
