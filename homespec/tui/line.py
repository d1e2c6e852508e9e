"""Lines of styled text, which everything on the screen is made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len
from textual.content import Content

from homespec.units import clean

Line = Content
MUTED = "$foreground 65%"
FAINT = "$foreground 20%"


def line(*parts: str | tuple[str, str] | Content) -> Line:
    """One line out of plain texts and (text, style) pairs."""
    return Content.assemble(*parts)


def wrapped(text: str, width: int, style: str = "") -> list[Line]:
    """Text over as many lines as it needs."""
    return Content.styled(clean(text), style).wrap(max(width, 1))


def facts(parts: Iterable[str], width: int, style: str = "") -> list[Line]:
    """Parts with ` · ` between them; a line breaks after one, and within one only where it is wider than the line."""
    rows: list[str] = []
    for part in map(clean, parts):
        if rows and cell_len(rows[-1]) + cell_len(part) + 3 <= width:
            rows[-1] += f" · {part}"
        else:
            rows.append(part)
    return [each for row in rows for each in wrapped(row, width, style)]
