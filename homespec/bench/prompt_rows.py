"""Rows of a prompts file, as they are read: from JSON lines or a JSON array, each with its place for complaints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from homespec.errors import ConfigError

SHAPE = "{'question_id', 'category', 'turns'}"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Row:
    """One prompt as it stands in the file."""

    place: str
    """`line 7`"""
    question_id: str
    category: str
    turns: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The same for prompts that differ in the blanks around them alone."""
        return tuple(turn.strip() for turn in self.turns)


class _Fields(msgspec.Struct):
    """Of a row; others are skipped."""

    question_id: str | int
    category: str
    turns: list[str]


_line_decoder = msgspec.json.Decoder(_Fields)
_array_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def json_rows(data: bytes, origin: str) -> list[Row]:
    """Of an array of objects, or of one object per line; empty lines are skipped. Raises ConfigError for a bad row."""
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if data.lstrip().startswith(b"["):
        items = [(f"item {number}", item) for number, item in enumerate(_items(data, origin), start=1)]
    else:
        items = [(f"line {number}", line) for number, line in enumerate(data.splitlines(), start=1) if line.strip()]
    return [_checked(_line_decoder.decode, item, place, origin) for place, item in items]


def row_of(value: Any, place: str, origin: str) -> Row:
    """Of a mapping that another format gave. Raises ConfigError."""
    return _checked(lambda each: msgspec.convert(each, _Fields), value, place, origin)


def _checked(decode: Callable[[Any], _Fields], value: Any, place: str, origin: str) -> Row:
    try:
        fields = decode(value)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"{origin}, {place}: {error}; each prompt is {SHAPE}") from error
    if not fields.turns or not all(turn.strip() for turn in fields.turns):
        raise ConfigError(f"{origin}, {place}: turns is empty or holds an empty text; the user must say something")
    return Row(place, str(fields.question_id), fields.category, tuple(fields.turns))


def _items(data: bytes, origin: str) -> list[bytes]:
    try:
        return [bytes(item) for item in _array_decoder.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{origin} is no JSON array: {error}; it must end with ']' and nothing after it") from error
