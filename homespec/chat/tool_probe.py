"""Which family a chat template writes tool calls like, seen from one call that it has rendered. Pure.

What a template says about calls, in instructions or in comments, need not be what it writes: the rendering tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from homespec.chat.arguments import Braces, Keywords, Style, Tags
from homespec.chat.tool_format import ToolFormat
from homespec.chat.tool_formats import FORMATS, HARMONY

NAME = "probe_tool"
"""The function that is called."""
KEY, VALUE = "probe_key", "probe_value"
"""Its only argument."""
_ID = "[A-Za-z0-9_-]+"
_OBJECT = rf'\{{\s*"{KEY}"\s*:\s*"{VALUE}"\s*\}}'
_HARMONY = (
    rf"(?:<\|channel\|>commentary)? to=functions\.{NAME}(?:<\|channel\|>commentary)?"
    rf" (?:<\|constrain\|>)?json<\|message\|>{_OBJECT}<\|call\|>"
)
"""Its recipient stands in front of the channel or behind it."""
_MARKS = re.compile(r"(?:\s|<[^<>\s]*>?)*")
"""What may follow a call: the turn's end."""
_SPACE = re.compile(r"\s+")
_MAX_SHOWN = 200
"""Characters of a call in an unknown form."""


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """The call of the probe as a template writes it."""

    text: str
    """It, and whatever around it a plain answer lacks, on one line; cut where it is long."""
    tool_format: str | None
    """The family that writes calls like this; None for none in the table."""


def read_call(rendered: str, plain: str, reasoning: tuple[str, str] | None) -> WrittenCall | None:
    """None where the call was not written at all.

    rendered: a conversation that ends with the call. plain: the same with words in the call's place.
    reasoning: the markers around thinking, which may stand in front of a call.
    """
    start, end = _difference(rendered, plain)
    if NAME not in rendered[start:end]:
        return None
    found = _family(rendered, plain, reasoning, is_exact=True)
    if found is None:  # the same marks with other space between them are still the same family's
        found = _family(_SPACE.sub("", rendered), _SPACE.sub("", plain), reasoning, is_exact=False)
    return WrittenCall(_SPACE.sub(" ", rendered[start:end].strip())[:_MAX_SHOWN], found)


def _family(rendered: str, plain: str, reasoning: tuple[str, str] | None, *, is_exact: bool) -> str | None:
    """The format whose spelling is all of the call. Where several fit, the first: it asks for less."""
    start, end = _difference(rendered, plain)
    for tool_format in FORMATS.values():
        for match in re.finditer(_pattern(tool_format, is_exact=is_exact), rendered):
            before = rendered[start : match.start()]
            behind = rendered[match.end() : end]
            if match.end() > start and not _without(before, reasoning) and _MARKS.fullmatch(behind):
                return tool_format.name
    return None


def _difference(text: str, other: str) -> tuple[int, int]:
    """Where `text` starts and ends to differ from the other one; no marker is cut at its start."""
    shorter = min(len(text), len(other))
    start = next((at for at in range(shorter) if text[at] != other[at]), shorter)
    left = shorter - start
    same = next((at for at in range(left) if text[-1 - at] != other[-1 - at]), left)
    opened = text.rfind("<", 0, start)
    is_cut = opened > text.rfind(">", 0, start) and " " not in text[opened:start]
    return opened if is_cut else start, len(text) - same


def _without(before: str, reasoning: tuple[str, str] | None) -> str:
    """What stands in front of a call, without empty thinking."""
    for mark in reasoning or ():
        before = before.replace(mark, "")
    return before.strip()


def _pattern(tool_format: ToolFormat, *, is_exact: bool) -> str:
    """Of the probe's call alone. is_exact: with the space that the family writes; else without any."""
    if tool_format is HARMONY:
        return _HARMONY if is_exact else _HARMONY.replace(" ", "")
    parts = _parts(tool_format)
    return "".join(part if is_pattern else _literal(part, is_exact) for part, is_pattern in parts if part)


def _literal(text: str, is_exact: bool) -> str:
    return re.escape(text if is_exact else _SPACE.sub("", text))


def _parts(tool_format: ToolFormat) -> Iterator[tuple[str, bool]]:
    """Texts, and patterns, in their order."""
    yield tool_format.opening + tool_format.begin, False
    if tool_format.id_end:
        yield _ID, True
        yield tool_format.id_end, False
    yield NAME, False
    if tool_format.id_mark:
        yield f"(?:{re.escape(tool_format.id_mark)}{_ID})", True
    yield tool_format.middle, False
    yield from _arguments(tool_format.arguments)
    if tool_format.end.startswith("}"):
        yield rf'(?:,\s*"id":\s*"{_ID}")?', True  # some write one here, which says nothing
    yield tool_format.end + tool_format.closing, False


def _arguments(style: Style) -> Iterator[tuple[str, bool]]:
    match style:
        case Tags() as tags:
            yield tags.spelled(KEY, VALUE), False
        case Braces(quote):
            yield f"{KEY}:{quote}{VALUE}{quote}}}", False
        case Keywords():
            yield f"{KEY}=(?:'{VALUE}'|\"{VALUE}\")", True
        case None:
            yield _OBJECT, True
