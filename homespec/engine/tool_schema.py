"""Schemas of functions, made ready for a grammar.

A strict schema is honoured to the letter or refused. In any other one, keywords that no grammar can express are hints:
they are left out, and that is said.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import msgspec
from llguidance import LLMatcher

from homespec.chat.argument_grammar import gaps_of
from homespec.chat.tool_formats import FORMATS
from homespec.engine.guided_schema import guided
from homespec.errors import RequestError
from homespec.frames import FunctionSpec, ToolUse

_HINTS = ("pattern", "format")


def usable(use: ToolUse) -> tuple[ToolUse, tuple[str, ...]]:
    """The same functions with schemas that llguidance follows, and what had to be left out, in words.

    Raises RequestError for a schema that is not one, or that is strict and cannot be followed.
    """
    functions, notices = [], []
    for function in use.functions:
        schema, left_out = _argument_schema(function)
        functions.append(msgspec.structs.replace(function, schema=schema))
        gaps = gaps_of(FORMATS[use.tool_format].arguments, json.loads(schema))
        if gaps and function.strict:
            raise RequestError(
                f"the parameters of {function.name!r} cannot be followed: this model writes text without quotes, where "
                f"{', '.join(gaps)} cannot be kept to; leave it out, or leave strict out",
                param="tools",
                code="invalid_constraint",
            )
        if left_out or gaps:
            reason = left_out or f"{', '.join(gaps)} of what is written as text"
            notices.append(f"schema of {function.name} is not followed in full: {reason}")
    answer = json.loads(use.answer_schema) if use.answer_schema else None
    return msgspec.structs.replace(
        use,
        functions=tuple(functions),
        answer_schema=_text(answer, lenient=False) if isinstance(answer, dict) else use.answer_schema,
    ), tuple(notices)


@lru_cache(maxsize=512)  # clients send the same functions with every request
def _argument_schema(function: FunctionSpec) -> tuple[str, str | None]:
    schema = {"type": "object", **json.loads(function.schema)}
    if "properties" in schema and not function.strict:
        schema = {"additionalProperties": False, **schema}
    fault = _fault(schema, lenient=False)
    if fault is None:
        return _text(schema, lenient=False), None
    if not function.strict:
        for candidate in (schema, _without(schema, _HINTS)):
            if _fault(candidate, lenient=True) is None:
                return _text(candidate, lenient=True), fault
    raise RequestError(
        f"the parameters of {function.name!r} cannot be followed: {fault}", param="tools", code="invalid_constraint"
    )


def _fault(schema: dict[str, Any], *, lenient: bool) -> str | None:
    """One line from llguidance; None for a schema that it can follow."""
    grammar = LLMatcher.grammar_from_lark(f"start: %json {_text(schema, lenient=lenient)}")
    is_bad, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    if not is_bad:
        return None
    text = messages[0].partition("schema: ")[2] or messages[0]
    return " ".join(text.partition("\n   1 |")[0].split())


def _text(schema: dict[str, Any], *, lenient: bool) -> str:
    return json.dumps(guided(schema, lenient=lenient))


def _without(value: Any, keys: tuple[str, ...]) -> Any:
    """A copy without these keywords; a property may still have such a name."""
    if isinstance(value, list):
        return [_without(each, keys) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: _without(each, keys) for name, each in inner.items()}
        if key in ("properties", "$defs", "definitions") and isinstance(inner, dict)
        else _without(inner, keys)
        for key, inner in value.items()
        if key not in keys
    }
