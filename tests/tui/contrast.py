"""How well what a dashboard draws stands out, by the measure of WCAG 2: 1 is invisible, 21 is black on white."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from textual.color import Color
from textual.geometry import Region

from homespec.tui.app import TopApp

TEXT, DRAWN = 4.5, 3.0
"""What is asked of text, and of bars and signs."""
CELL_WIDTH, CELL_HEIGHT = 12.2, 24.4
"""Of a cell in the picture that Textual makes."""
QUIET = set("─│╭╮╰╯┈▏▁▔▕▎▌█▇▊ ")
"""Frames, tracks and edges: nothing is told by them."""

_FILL = re.compile(r"\.terminal-\d+-(r\d+) \{ fill: (#[0-9a-f]{6})")
_GROUND = re.compile(
    r'<rect fill="(#[0-9a-f]{6})" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" shape-rendering'
)
_TEXT = re.compile(r'<text class="terminal-\d+-(r\d+)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of one style."""

    text: str
    place: Region
    """In cells."""
    contrast: float


def runs(app: TopApp) -> Iterator[Run]:
    """All that the screen shows but blanks."""
    svg = app.export_screenshot()
    fills = dict(_FILL.findall(svg))
    grounds = [
        (colour, Region(*map(round, (_cells(x), _rows(y), _cells(width), _rows(height)))))
        for colour, x, y, width, height in _GROUND.findall(svg)
    ]
    for name, x, y, text in _TEXT.findall(svg):
        shown = html.unescape(text).replace("\xa0", " ")
        if not shown.strip():
            continue
        place = Region(round(_cells(x)), int(_rows(y)), len(shown), 1)
        [ground] = [colour for colour, region in grounds if region.contains(place.x, place.y)][-1:]
        yield Run(shown, place, contrast(fills[name], ground))


def contrast(first: str, second: str) -> float:
    """Of two colours."""
    dark, light = sorted((_luminance(first), _luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def wanted(text: str) -> float:
    """The least contrast of a run of this text."""
    if set(text) <= QUIET:
        return 1.0
    return TEXT if any(char.isalnum() for char in text) else DRAWN


def _luminance(colour: str) -> float:
    linear = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in Color.parse(colour).normalized)
    red, green, blue = linear
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _cells(x: str) -> float:
    return float(x) / CELL_WIDTH


def _rows(y: str) -> float:
    return float(y) / CELL_HEIGHT
