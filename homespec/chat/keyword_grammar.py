"""Rules for the arguments of one function in Python's notation: `city="Paris", days=[1, 2], now=True`.

A value may be written as JSON too, and inside lists and objects it must be: what is legal there is the schema's own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from homespec.chat.schema_parts import OF_TEXT, choices_of, row_of_members, standing_alone
from homespec.chat.speller import Speller
from homespec.chat.values import types_of

_COMMA = '", "'
_PYTHON = {"true": "True", "false": "False", "null": "None"}
_COMBINED = frozenset({"anyOf", "oneOf", "allOf", "not", "$ref"})


def keyword_rules(name: str, schema: dict[str, Any], spell: Speller) -> Iterator[str]:
    """The rule `name` and those that it needs."""
    properties = schema.get("properties") or {}
    if not properties:
        yield f"{name}_any: {_value({}, schema, spell)}"
        pair = f"KEYWORD {name}_any"
        is_open = schema.get("additionalProperties") is not False
        yield f"{name}: " + (f"({pair} ({_COMMA} {pair})*)?" if is_open else '""')
        return
    required = set(schema.get("required") or ())
    members = []
    for at, (key, value) in enumerate(properties.items()):
        yield f"{name}_{at}: {spell(key + '=')} ({_value(value, schema, spell)})"
        members.append((f"{name}_{at}", key in required))
    row, rules = row_of_members(name, members, _COMMA)
    yield from rules
    yield f"{name}: {row}"


def shared_keyword_rules() -> Iterator[str]:
    yield r"""QUOTED: /'([^'\\\x00-\x1f]|\\['"\\nrt])*'/"""
    yield r"KEYWORD: /[A-Za-z_][A-Za-z0-9_]*=/"


def _value(value: Any, schema: dict[str, Any], spell: Speller) -> str:
    """Alternatives for one value."""
    value = value if isinstance(value, dict) else {}
    choices = choices_of(value)
    if choices is not None:
        return " | ".join(spelling for choice in choices for spelling in _literals(choice, spell))
    alternatives = [f"%json {standing_alone(value, schema)}"]
    if value.keys() & _COMBINED:
        return alternatives[0]
    types = types_of(value)
    if not types or "boolean" in types:
        alternatives += ['"True"', '"False"']
    if not types or "null" in types:
        alternatives.append('"None"')
    if (not types or "string" in types) and not value.keys() & OF_TEXT:
        alternatives.append("QUOTED")
    return " | ".join(alternatives)


def _literals(choice: Any, spell: Speller) -> Iterator[str]:
    """Every way to write one value."""
    text = json.dumps(choice, ensure_ascii=False)
    yield spell(text)
    if text in _PYTHON:
        yield spell(_PYTHON[text])
    if isinstance(choice, str) and "'" not in choice and text == f'"{choice}"':
        yield spell(f"'{choice}'")
