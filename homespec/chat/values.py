"""Values of a call's arguments as JSON, where a model writes them as plain text."""

from __future__ import annotations

import json
from typing import Any

TEXT_ONLY = frozenset({"string"})
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


def quoted(text: str) -> str:
    """As the inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def types_of(schema: Any) -> frozenset[str]:
    """JSON types that a schema allows; empty where it does not say."""
    if not isinstance(schema, dict):
        return frozenset()
    stated = schema.get("type")
    if isinstance(stated, str):
        return frozenset({stated})
    if isinstance(stated, list):
        return frozenset(each for each in stated if isinstance(each, str))
    choices = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(choices, list):
        return frozenset(_type_of(choice) for choice in choices)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            each = [types_of(inner) for inner in schema[key]]
            return frozenset[str]().union(*each) if all(each) else frozenset()
    return frozenset()


def as_json(text: str, types: frozenset[str]) -> str:
    """The JSON of a value that is written as `text`: what its schema allows, a string where that is all that fits."""
    if types == TEXT_ONLY:
        return f'"{quoted(text)}"'
    try:
        found = _type_of(json.loads(text, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return f'"{quoted(text)}"'
    fits = found in types or (found == "integer" and "number" in types)
    return text.strip() if fits or not types or "string" not in types else f'"{quoted(text)}"'


def _refuse(word: str) -> None:
    """Python reads NaN and Infinity; JSON has neither."""
    raise ValueError(word)


def _type_of(value: Any) -> str:
    return _TYPES.get(type(value), "null")
