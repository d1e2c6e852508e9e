"""A grammar for an answer that must look like something and may be thought about first. In Lark as llguidance reads it.

What is constrained is the answer: the thinking before it is free, and the constraint begins where the thinking ends.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from homespec.chat.harmony import harmony_answer
from homespec.chat.speller import SPACE, TEXT, Speller
from homespec.chat.thinking import thinking_rules
from homespec.chat.tool_formats import HARMONY_REASONING
from homespec.frames import Constraint


def answer_grammar(
    constraint: Constraint, tokens: Mapping[str, int], *, reasoning: tuple[str, str], in_reasoning: bool
) -> str:
    """The grammar's text, for a constraint in json_schema, regex or lark; the rest as for `tool_grammar`."""
    answer = _answer(constraint)
    if reasoning == HARMONY_REASONING:
        return harmony_answer(answer, tokens)
    rules = thinking_rules(reasoning, Speller(tokens), in_reasoning=in_reasoning)
    return "\n".join([*rules, f"body: SPACE? ({answer})", TEXT, SPACE])


def _answer(constraint: Constraint) -> str:
    match constraint.kind:
        case "json_schema":
            return f"%json {constraint.text}"
        case "regex":
            return f"%lark {{\nstart: /{_one_line(constraint.text)}/\n}}"
        case _:
            return f"%lark {{\n{constraint.text}\n}}"


def _one_line(regex: str) -> str:
    """As it may stand between slashes."""
    escapes = {"/": r"\/", "\n": r"\n", "\r": r"\r"}
    return re.sub(r"(?s)\\.|[/\n\r]", lambda found: escapes.get(found[0], found[0]), regex)
