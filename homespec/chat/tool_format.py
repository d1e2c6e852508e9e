"""How a model family writes tool calls.

A list of calls reads: opening, begin NAME middle ARGUMENTS end, separator, begin …, closing. Some families number their
calls, or give them ids: then it is begin ID id_end NAME …, or … NAME id_mark ID middle …. The texts are those of the
families' own chat templates, to the space: a model is asked, and where needed forced, to write what it was trained on.
`tool_formats.py` has the table of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from homespec.chat.arguments import Style


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One family's spelling of tool calls."""

    name: str
    begin: str
    """In front of the function's name."""
    middle: str
    """Between the name and the arguments; empty where they follow at once, with a tag."""
    end: str
    opening: str = ""
    closing: str = ""
    separator: str = ""
    markers: tuple[str, ...] = ()
    """Parts of these texts that many vocabularies hold as one control token."""
    prefix: str = ""
    """May stand in front of the calls."""
    anywhere: bool = True
    """Calls may follow text; else they are the whole answer."""
    arguments: Style = None
    """How they are written; None: as a JSON object."""
    id_end: str = ""
    """Behind an id in front of the name; empty where none stands there."""
    id_mark: str = ""
    """In front of an id behind the name, which may be left out with it; empty where none stands there."""

    @property
    def start(self) -> str:
        """What every list of calls starts with, an optional prefix aside."""
        return self.opening + self.begin

    @property
    def trigger(self) -> str:
        """The shortest start that no other text has."""
        return next((marker for marker in self.markers if self.start.startswith(marker)), self.start)

    def split_name(self, text: str) -> tuple[str, str] | None:
        """The function's name and what follows it, ids left out; None while the name may go on."""
        if self.id_end:
            _, found, text = text.partition(self.id_end)
            if not found:
                return None
        if self.middle:
            name, found, rest = text.partition(self.middle)
            if self.id_mark:
                name = name.partition(self.id_mark)[0]
            return (name, rest) if found else None
        at = text.find("<")
        return None if at < 0 else (text[:at], text[at:])


@dataclass(frozen=True, slots=True)
class Tools:
    """What an answer may call, and how it writes that."""

    format: ToolFormat
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of its arguments, by function."""
