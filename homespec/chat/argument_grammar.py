"""Rules for the arguments of one function, in each of the ways in which they are written.

Arguments come in the order of the schema, as in llguidance's own objects; those that are not required may be left out.
Where a string is plain text, only its end is known: patterns and lengths of strings are not followed there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from homespec.chat.arguments import BARE_ENDS, Braces, Keywords, Style, Tags
from homespec.chat.element_grammar import element_rules, shared_element_rules
from homespec.chat.keyword_grammar import keyword_rules, shared_keyword_rules
from homespec.chat.schema_parts import OF_TEXT, choices_of, row_of_members, standing_alone
from homespec.chat.speller import Speller
from homespec.chat.values import TEXT_ONLY, types_of

_OF_OTHERS = frozenset({"minItems", "maxItems", "prefixItems", "allOf", "patternProperties", "minProperties"})


def argument_rules(style: Style, name: str, schema: str, spell: Speller) -> Iterator[str]:
    """The rule `name` and those that it needs. schema: of the arguments, as JSON."""
    match style:
        case None:
            yield f"{name}: %json {schema}"
        case Tags(nested=mark) if mark:
            yield from element_rules(name, json.loads(schema), mark, spell)
        case Tags():
            yield from _tagged(style, name, json.loads(schema), spell)
        case Braces(quote):
            yield from _Braced(quote, name, json.loads(schema), spell).rules()
        case Keywords():
            yield from keyword_rules(name, json.loads(schema), spell)


def shared_rules(style: Style, spell: Speller) -> Iterator[str]:
    """Rules that the arguments of all functions use."""
    match style:
        case Tags(nested=mark) if mark:
            yield from shared_element_rules(mark, spell)
        case Tags():
            yield from _text_value(style, spell)
            yield from _any_argument(style, spell)
        case Braces(quote):
            yield spell.up_to("text_value", quote)
            yield f"any_text: {spell(quote)} text_value"
            yield 'any_value: any_text | SCALAR | any_object | "[" (any_value ("," any_value)*)? "]"'
            yield 'any_object: "{" (any_pair ("," any_pair)*)? "}"'
            yield "any_pair: NAME any_value"
            yield r"NAME: /[A-Za-z_][A-Za-z0-9_.-]*:/"
            yield r"SCALAR: /-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false|null/"
        case Keywords():
            yield from shared_keyword_rules()


def gaps_of(style: Style, schema: dict[str, Any]) -> list[str]:
    """Keywords of the schema that the rules for this style leave out, by name."""
    match style:
        case Tags(nested=""):
            properties = schema.get("properties") or {}
            texts = (value for value in properties.values() if types_of(value) & TEXT_ONLY and isinstance(value, dict))
            return sorted({key for value in texts for key in value if key in OF_TEXT})
        case Braces() | Tags():
            return sorted(set(_keywords(schema)) & (OF_TEXT | _OF_OTHERS))
        case Keywords() | None:
            return []


def _keywords(schema: Any) -> Iterator[str]:
    """All that a schema and its parts say; names of properties are none."""
    if isinstance(schema, list):
        for each in schema:
            yield from _keywords(each)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            yield key
            is_named = key in ("properties", "$defs", "definitions") and isinstance(value, dict)
            yield from _keywords(list(value.values()) if is_named else value)


def _text_value(tags: Tags, spell: Speller) -> Iterator[str]:
    """A text, and what ends its argument."""
    if tags.wrap is None:
        yield spell.up_to("text_value", tags.close)
        return
    opened, closed = tags.wrap
    yield f"text_value: BARE {spell(tags.close)} | {spell(opened)} wrapped_value"
    yield f"BARE: /[^{''.join(sorted(BARE_ENDS))}]*/".replace("\n", r"\n")
    yield spell.up_to("wrapped_value", closed + tags.close)


def _any_argument(tags: Tags, spell: Speller) -> Iterator[str]:
    """The name of an argument of which the schema says nothing, and its value."""
    if not tags.json_value:
        yield "any_argument: any_name text_value"
        yield spell.up_to("any_name", tags.value)
        return
    text = f"{spell(tags.value)} text_value"
    other = f"{spell(tags.json_value)} %json {{}} {spell(tags.close)}"
    yield f"any_argument: QUOTED ({text} | {other})"
    yield r'QUOTED: /[^"]*/'


def _tagged(tags: Tags, name: str, schema: dict[str, Any], spell: Speller) -> Iterator[str]:
    properties = schema.get("properties") or {}
    if not properties:
        is_open = schema.get("additionalProperties") is not False
        yield f"{name}: " + (f"({spell(tags.key)} any_argument)*" if is_open else '""')
        return
    required = set(schema.get("required") or ())
    parts = []
    for index, (key, value) in enumerate(properties.items()):
        parts.append(f"{name}_{index}" + ("" if key in required else "?"))
        yield f"{name}_{index}: {_tagged_argument(tags, key, value, schema, spell)}"
    yield f"{name}: {' '.join(parts)}"


def _tagged_argument(tags: Tags, key: str, value: Any, schema: dict[str, Any], spell: Speller) -> str:
    head = tags.key + key
    choices = choices_of(value)
    if choices is not None and all(isinstance(choice, str) for choice in choices):
        return f"({' | '.join(spell(tags.spelled(key, choice)) for choice in choices)})"
    text = f"{spell(head + tags.value)} text_value"
    types = types_of(value)
    if not types or types == TEXT_ONLY or (types & TEXT_ONLY and not tags.json_value):
        return text
    other = f"{spell(head + (tags.json_value or tags.value))} %json {standing_alone(value, schema)} {spell(tags.close)}"
    return f"({text} | {other})" if types & TEXT_ONLY else other


class _Braced:
    """JSON with bare names and marks of its own around strings."""

    def __init__(self, quote: str, name: str, schema: dict[str, Any], spell: Speller) -> None:
        self._quote = quote
        self._name = name
        self._schema = schema
        self._spell = spell
        self._found: list[str] = []
        self._references: dict[str, str] = {}
        """Rules of the parts that the schema refers to: some refer to themselves."""

    def rules(self) -> list[str]:
        """The opening brace has been written: it ends the function's name."""
        body = self._members(self._schema, self._name)
        return [*self._found, f'{self._name}: {body} "}}"']

    def _value(self, value: Any, name: str) -> str:
        if not isinstance(value, dict):
            return "any_value"
        if isinstance(value.get("$ref"), str):
            return self._reference(value["$ref"])
        choices = choices_of(value)
        if choices is not None:
            return f"({' | '.join(self._literal(choice) for choice in choices)})"
        for key in ("anyOf", "oneOf"):
            if isinstance(value.get(key), list):
                each = [self._value(inner, f"{name}_{at}") for at, inner in enumerate(value[key])]
                return f"({' | '.join(each)})"
        kinds = [self._kind(kind, value, name) for kind in sorted(types_of(value))]
        return f"({' | '.join(kinds)})" if kinds else "any_value"

    def _kind(self, kind: str, value: dict[str, Any], name: str) -> str:
        match kind:
            case "string":
                return "any_text"
            case "object":
                return f'"{{" {self._members(value, name)} "}}"'
            case "array":
                item = self._rule(f"{name}_item", self._value(value.get("items"), f"{name}_item"))
                return f'"[" ({item} ("," {item})*)? "]"'
            case _:
                return f"%json {standing_alone({**value, 'type': kind}, self._schema)}"

    def _members(self, schema: dict[str, Any], name: str) -> str:
        """What stands between two braces: with a comma in front of each member but the first that is there."""
        properties = schema.get("properties") or {}
        if not properties:
            return '""' if schema.get("additionalProperties") is False else '(any_pair ("," any_pair)*)?'
        required = set(schema.get("required") or ())
        members = []
        for at, (key, value) in enumerate(properties.items()):
            member = self._rule(f"{name}_{at}", f"{self._spell(key + ':')} {self._value(value, f'{name}_{at}')}")
            members.append((member, key in required))
        row, rules = row_of_members(name, members, '","')
        self._found += rules
        return row

    def _reference(self, path: str) -> str:
        if path not in self._references:
            name = self._references[path] = f"{self._name}_ref_{len(self._references)}"
            self._rule(name, self._value(self._part(path), name))
        return self._references[path]

    def _part(self, path: str) -> Any:
        found: Any = self._schema
        for part in path.removeprefix("#").split("/")[1:]:
            found = found.get(part) if isinstance(found, dict) else None
        return found

    def _rule(self, name: str, body: str) -> str:
        self._found.append(f"{name}: {body}")
        return name

    def _literal(self, choice: Any) -> str:
        if isinstance(choice, str):
            return self._spell(self._quote + choice + self._quote)
        return json.dumps(json.dumps(choice))
