"""The arguments of a call as JSON, from the ways in which models write them; as they come, and never taken back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from homespec.chat.elements import element_json, element_text
from homespec.chat.keyword_reader import KeywordReader
from homespec.chat.values import TEXT_ONLY, as_json, quoted, types_of

BARE_ENDS = frozenset("<&\n")
"""What a text must not hold, where a text that does is wrapped."""


@dataclass(frozen=True, slots=True)
class Tags:
    """One argument after the other between tags, each value as plain text; only what is no string is JSON."""

    key: str
    """In front of an argument's name."""
    value: str
    """Between its name and its value."""
    close: str
    """Behind its value; `{name}` stands for its name."""
    json_value: str = ""
    """Between its name and a value that is JSON, where that is told apart; empty where it is not."""
    wrap: tuple[str, str] | None = None
    """Around a text that holds what a bare one must not."""
    nested: str = ""
    """In front of the tags inside a value that is no text; empty where that is JSON."""

    def closing(self, name: str) -> str:
        return self.close.replace("{name}", name)

    def spelled(self, name: str, value: Any) -> str:
        """One argument."""
        between, text = self.value, str(value)
        if not isinstance(value, str):
            between = self.json_value or self.value
            text = element_text(value, self.nested) if self.nested else json.dumps(value, ensure_ascii=False)
        elif self.wrap and BARE_ENDS & set(value):
            text = text.join(self.wrap)
        return self.key + name + between + text + self.closing(name)


@dataclass(frozen=True, slots=True)
class Braces:
    """JSON with bare names and marks of its own around strings."""

    quote: str


@dataclass(frozen=True, slots=True)
class Keywords:
    """As Python's calls have them: `name=value`, values in Python's notation or as JSON."""


Style = Tags | Braces | Keywords | None
"""None: a JSON object."""


class ArgumentReader(Protocol):
    """Reads the arguments of one call."""

    def read(self, text: str, *, final: bool) -> tuple[str, str, bool]:
        """JSON of what has come, the text that is left, and whether the arguments are whole. final: no more comes."""
        ...


def argument_reader(style: Style, schema: Any, end: str) -> ArgumentReader:
    """schema: of the function's arguments. end: the text behind all arguments, which is left."""
    match style:
        case Tags():
            return TaggedReader(style, schema, end)
        case Braces(quote):
            return BraceReader(quote)
        case Keywords():
            return KeywordReader()
        case None:
            return JsonReader()


def held_back(text: str, mark: str) -> int:
    """Characters at the end of `text` that may be the start of `mark`."""
    sizes = range(min(len(mark) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(mark[:size])), 0)


class JsonReader:
    """Passes one object on, and finds its end."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False

    def read(self, text: str, *, final: bool) -> tuple[str, str, bool]:
        end = self._end(text)
        return text[:end], text[end:], self._depth == 0 and bool(text[:end].strip())

    def _end(self, text: str) -> int:
        for at, char in enumerate(text):
            if self._in_string:
                if self._escaped:
                    self._escaped = False
                elif char == "\\":
                    self._escaped = True
                elif char == '"':
                    self._in_string = False
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return at + 1
        return len(text)


class TaggedReader:
    """Strings come out as they come in, other values when they are whole."""

    def __init__(self, tags: Tags, schema: Any, end: str) -> None:
        self._tags = tags
        self._end = end
        properties = schema.get("properties") if isinstance(schema, dict) else None
        self._properties: Mapping[str, Any] = properties if isinstance(properties, dict) else {}
        self._types: frozenset[str] | None = None
        """Of the value that is being read; None between two arguments."""
        self._name = ""
        self._close: str | None = None
        """What ends that value; None before its first character."""
        self._next = "{"

    def read(self, text: str, *, final: bool) -> tuple[str, str, bool]:
        out = ""
        while True:
            is_between = self._types is None
            json_text, rest, goes_on = self._between(text) if is_between else self._value(text, final)
            out += json_text
            if not goes_on:
                return out, rest, is_between and bool(json_text)
            text = rest

    def _between(self, text: str) -> tuple[str, str, bool]:
        tags, is_end = self._tags, text.startswith(self._end)
        if not is_end and (tags.key.startswith(text) or self._end.startswith(text)):
            return "", text, False
        if text.startswith(tags.key) and not is_end:
            name, rest, types = self._named(text[len(tags.key) :])
            if types is None:
                return "", text, False
            self._name, self._types, self._close = name, types, None
            begun = f'{self._next}"{quoted(name)}": ' + ('"' if types == TEXT_ONLY else "")
            self._next = ", "
            return begun, rest, True
        return ("{}" if self._next == "{" else "}"), text, False

    def _named(self, text: str) -> tuple[str, str, frozenset[str] | None]:
        """An argument's name, what follows, and the types that its value may have; None while more must come."""
        marks = [mark for mark in (self._tags.value, self._tags.json_value) if mark and mark in text]
        if not marks:
            return "", text, None
        mark = min(marks, key=text.index)
        name, _, rest = text.partition(mark)
        types = types_of(self._properties.get(name))
        if self._tags.json_value:
            types = TEXT_ONLY if mark == self._tags.value else types - TEXT_ONLY
        return name, rest, types

    def _value(self, text: str, final: bool) -> tuple[str, str, bool]:
        assert self._types is not None
        types = self._types
        if self._close is None:
            opened, closed = self._tags.wrap or ("", "")
            if len(text) < len(opened) and opened.startswith(text) and not final:
                return "", text, False
            is_wrapped = bool(opened) and text.startswith(opened)
            self._close = (closed if is_wrapped else "") + self._tags.closing(self._name)
            text = text[len(opened) :] if is_wrapped else text
        at = self._end_of_value(text, self._close)
        if at >= 0:
            self._types = None
            json_text = quoted(text[:at]) + '"' if types == TEXT_ONLY else self._json(text[:at], types)
            return json_text, text[at + len(self._close) :], True
        if types != TEXT_ONLY:
            return "", text, False
        size = len(text) - (0 if final else held_back(text, self._close))
        return quoted(text[:size]), text[size:], False

    def _end_of_value(self, text: str, close: str) -> int:
        """Where it ends, members of its own name passed over; -1 where more must come."""
        at, tags = text.find(close), self._tags
        opened = tags.key + self._name + tags.value
        while tags.nested and at >= 0 and text.count(opened, 0, at) > text.count(close, 0, at):
            at = text.find(close, at + 1)
        return at

    def _json(self, text: str, types: frozenset[str]) -> str:
        mark = self._tags.nested
        return element_json(text, self._properties.get(self._name), mark) if mark else as_json(text, types)


class BraceReader:
    """The object's opening brace has been read: it ends the function's name."""

    def __init__(self, quote: str) -> None:
        self._quote = quote
        self._open = ["{"]
        self._prefix = "{"
        self._in_string = False
        self._at_name = True

    def read(self, text: str, *, final: bool) -> tuple[str, str, bool]:
        out, self._prefix = self._prefix, ""
        while text and self._open:
            json_text, rest = self._string(text, final) if self._in_string else self._structure(text)
            out += json_text
            if rest == text:
                break
            text = rest
        return out, text, not self._open

    def _string(self, text: str, final: bool) -> tuple[str, str]:
        before, found, rest = text.partition(self._quote)
        if found:
            self._in_string = False
            return quoted(before) + '"', rest
        size = len(text) - (0 if final else held_back(text, self._quote))
        return quoted(text[:size]), text[size:]

    def _structure(self, text: str) -> tuple[str, str]:
        """The next character outside strings, or the next bare name; nothing where more must come first."""
        if text.startswith(self._quote):
            self._in_string, self._at_name = True, False
            return '"', text[len(self._quote) :]
        if self._quote.startswith(text):
            return "", text
        char = text[0]
        if self._at_name and char not in "{}[], \n":
            name, found, rest = text.partition(":")
            self._at_name = not found
            return (json.dumps(name.strip(), ensure_ascii=False) + ":", rest) if found else ("", text)
        if char in "{[":
            self._open.append(char)
        elif char in "}]":
            self._open.pop()
        if char in "{[,}]":
            self._at_name = char in "{," and self._open[-1:] == ["{"]
        return char, text[1:]
