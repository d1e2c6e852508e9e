"""Parts of a JSON schema that the grammars of arguments are made of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

OF_TEXT = frozenset({"pattern", "format", "minLength", "maxLength"})
"""Keywords that bound a string."""


def choices_of(value: Any) -> Sequence[Any] | None:
    """The values that a schema names; None where it names none."""
    if not isinstance(value, dict):
        return None
    if "const" in value:
        return [value["const"]]
    choices = value.get("enum")
    return choices if isinstance(choices, list) and choices else None


def standing_alone(value: Any, schema: dict[str, Any]) -> str:
    """JSON of a part of a schema, with what it refers to."""
    shared = {key: schema[key] for key in ("$defs", "definitions", "x-guidance") if key in schema}
    return json.dumps({**shared, **value})


def row_of_members(name: str, members: Sequence[tuple[str, bool]], separator: str) -> tuple[str, list[str]]:
    """A symbol for members in their order, and the rules that it needs. A separator stands in front of each one but the
    first that is there.

    name: of the rules, in front. members: the symbol of each, and whether it must be there.
    """
    first, behind, rules = '""', '""', []
    for at, (member, is_required) in reversed(list(enumerate(members))):
        skipped = "" if is_required else f" | {first}"
        more = "" if is_required else f" | {behind}"
        rules += [
            f"{name}_first_{at}: {member} {behind}{skipped}",
            f"{name}_more_{at}: {separator} {member} {behind}{more}",
        ]
        first, behind = f"{name}_first_{at}", f"{name}_more_{at}"
    return first, rules
