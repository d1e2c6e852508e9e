"""Rules for arguments as nested elements: members in the order of the schema, which may be left out unless required."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from homespec.chat.elements import ITEM
from homespec.chat.schema_parts import choices_of, standing_alone
from homespec.chat.speller import Speller
from homespec.chat.values import TEXT_ONLY, types_of

_INNER = frozenset({"object", "array"})


def element_rules(name: str, schema: dict[str, Any], mark: str, spell: Speller) -> Iterator[str]:
    """The rule `name` and those that it needs, for the arguments of one function."""
    if not schema.get("properties"):
        yield f"{name}: " + ("any_member*" if schema.get("additionalProperties") is not False else '""')
        return
    elements = _Elements(schema, mark, spell)
    body = elements.members(schema, name)
    yield from elements.rules
    yield f"{name}: {body}"


def shared_element_rules(mark: str, spell: Speller) -> Iterator[str]:
    """Rules that the arguments of all functions use: elements of which the schema says nothing."""
    yield f"any_member: {spell(mark + '<')} TAG any_rest TAG"
    yield _rest("any_rest", f"{mark}</", mark, spell)
    yield f"any_text: TEXT ({spell(mark)} TEXT)*"
    yield r"TAG: /[^<>]+>/"


def _rest(name: str, close: str, mark: str, spell: Speller) -> str:
    """A rule: anything, elements included, and what closes it. Text never matches a mark that is a token."""
    return f"{name}: any_text {spell(close)}" if mark in spell.tokens else spell.up_to(name, close)


class _Elements:
    def __init__(self, schema: dict[str, Any], mark: str, spell: Speller) -> None:
        self._schema = schema
        self._mark = mark
        self._spell = spell
        self.rules: list[str] = []
        """Those found so far."""

    def members(self, schema: dict[str, Any], name: str) -> str:
        required = set(schema.get("required") or ())
        symbols = []
        for at, (key, value) in enumerate(schema["properties"].items()):
            self.rules.append(f"{name}_{at}: {self._element(key, value, f'{name}_{at}')}")
            symbols.append(f"{name}_{at}" + ("" if key in required else "?"))
        return " ".join(symbols)

    def _element(self, key: str, value: Any, name: str) -> str:
        """The tags of an element and what stands between them."""
        opened, closed = f"{self._mark}<{key}>", f"{self._mark}</{key}>"
        choices, types = choices_of(value), types_of(value)
        if choices is not None and all(isinstance(choice, str) for choice in choices):
            return f"({' | '.join(self._spell(opened + choice + closed) for choice in choices)})"
        head, tail = self._spell(opened), self._spell(closed)
        if types == {"object"} and value.get("properties"):
            return f"{head} {self.members(value, f'{name}_o')} {tail}"
        if types == {"array"}:
            return f"{head} ({self._element(ITEM, value.get('items'), f'{name}_i')})* {tail}"
        if types and not types & (TEXT_ONLY | _INNER):
            return f"{head} %json {standing_alone(value, self._schema)} {tail}"
        is_text = types and not types & _INNER
        rule = (
            self._spell.up_to(f"{name}_v", closed) if is_text else _rest(f"{name}_v", closed, self._mark, self._spell)
        )
        self.rules.append(rule)
        return f"{head} {name}_v"
