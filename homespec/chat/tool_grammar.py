"""A grammar for answers that may, or must, call tools. In Lark as llguidance reads it.

Text before a call is free. From the first character of a call on only well-formed calls of known functions are legal,
with arguments that fit the function's schema: a call that begins cannot come out broken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from homespec.chat.argument_grammar import argument_rules, shared_rules
from homespec.chat.harmony import harmony_grammar
from homespec.chat.speller import SPACE, TEXT, Speller
from homespec.chat.thinking import thinking_rules
from homespec.chat.tool_format import ToolFormat
from homespec.chat.tool_formats import HARMONY
from homespec.frames import ToolUse

_ID = "ID: /[A-Za-z0-9]{1,12}/"


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
    if tool_format is HARMONY:
        return harmony_grammar(use, tokens)
    spell = Speller(tokens)
    rules = [*thinking_rules(reasoning, spell, in_reasoning=in_reasoning), _body(use, tool_format, spell)]
    calls = f"{spell(tool_format.begin)} function" if tool_format.begin else "function"
    more = f" ({spell(tool_format.separator + tool_format.begin)} function)*" if use.parallel else ""
    closing = f" {spell(tool_format.closing)}" if tool_format.closing else ""
    rules += [f"calls_after_trigger: {_after_trigger(tool_format, spell)}function{more}{closing}"]
    rules += [f"calls: {spell(tool_format.opening) + ' ' if tool_format.opening else ''}{calls}{more}{closing}"]
    rules += ["function: " + " | ".join(f"function_{index}" for index in range(len(use.functions)))]
    for index, function in enumerate(use.functions):
        head = _head(tool_format, function.name, spell)
        end = f" {spell(tool_format.end)}" if tool_format.end else ""
        rules.append(f"function_{index}: {head} arguments_{index}{end}")
        rules += argument_rules(tool_format.arguments, f"arguments_{index}", function.schema, spell)
    return "\n".join([*rules, *shared_rules(tool_format.arguments, spell), TEXT, SPACE, _ID])


def _head(tool_format: ToolFormat, name: str, spell: Speller) -> str:
    """What stands in front of a function's arguments."""
    number = f"ID {spell(tool_format.id_end)} " if tool_format.id_end else ""
    if not tool_format.id_mark:
        return number + spell(name + tool_format.middle)
    return f"{number}{spell(name)} ({spell(tool_format.id_mark)} ID)? {spell(tool_format.middle)}"


def _body(use: ToolUse, tool_format: ToolFormat, spell: Speller) -> str:
    prefix = f"({spell(tool_format.prefix)})? " if tool_format.prefix else ""
    if use.required:
        return f"body: SPACE? {prefix}calls"
    if use.answer_schema is not None:
        return f"body: SPACE? %json {use.answer_schema} | SPACE? {prefix}calls"
    if not tool_format.anywhere:
        # Here a call has no marker: an answer that starts like one is one.
        start = re.escape(tool_format.start).replace("/", r"\/").replace(r"\ ", " ")
        return f"body: PLAIN | {prefix}calls\nPLAIN: TEXT & ~/(?s:{start}.*)/"
    return f"body: TEXT | head calls_after_trigger\n{spell.up_to('head', tool_format.trigger)}"


def _after_trigger(tool_format: ToolFormat, spell: Speller) -> str:
    rest = tool_format.start.removeprefix(tool_format.trigger)
    return f"{spell(rest)} " if rest else ""
