"""Bars and charts out of block characters. Pure: numbers in, text of an exact width out."""

from __future__ import annotations

from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"
FULL, HALF, TRACK = "━", "╸", "─"
"""Thin bars: rows of them stay apart, and full and empty differ without colour."""


def bar_cells(fraction: float, width: int) -> str:
    """The filled part of a bar of `width` cells, to half a cell; anything above zero shows."""
    halves = round(min(max(fraction, 0.0), 1.0) * width * 2)
    if fraction > 0 and width:
        halves = max(halves, 1)
    return FULL * (halves // 2) + HALF * (halves % 2)


def share_cells(parts: Sequence[float], whole: float, width: int) -> list[int]:
    """Cells for each part of a stacked bar.

    They add up to the rounded total, and a part above zero gets a cell as long as there is one.
    """
    if whole <= 0:
        return [0] * len(parts)
    total = min(sum(parts) / whole, 1.0) * width
    cells, so_far, used = [], 0.0, 0
    for part in parts:
        so_far += part
        edge = round(so_far / sum(parts) * total) if sum(parts) else 0
        size = max(edge - used, 1 if part > 0 and used < width else 0)
        cells.append(size)
        used += size
    return cells


def chart(values: Sequence[float | None], height: int, top: float, bottom: float = 0.0) -> list[str]:
    """Columns over `height` rows, topmost row first; the scale runs from `bottom` to `top`.

    None leaves a gap. The bottom still shows as a thin line, so that idle and zero differ.
    """
    steps = [None if value is None else _steps(value - bottom, height, top - bottom) for value in values]
    return [
        "".join(" " if step is None else _EIGHTHS[min(max(step - row * 8, 0), 8)] for step in steps)
        for row in reversed(range(height))
    ]


def _steps(value: float, height: int, extent: float) -> int:
    fraction = min(max(value / extent, 0.0), 1.0) if extent > 0 else 0.0
    return max(round(fraction * height * 8), 1)
