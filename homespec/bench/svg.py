"""Plots as inline SVG. Colours are classes of the page's style sheet, so that it can be light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from homespec.bench.axis import Axis, around_one, from_zero, of_counts

WIDTH = 720
_MIN_LABEL_WIDTH, _MAX_LABEL_WIDTH, _VALUE_WIDTH = 130, 240, 150
_CHAR_WIDTH = 7.2
"""Of a label, on average and on the safe side."""
_ROW, _BAR = 24, 9
_LINES_WIDTH, _LINES_HEIGHT = 344, 240
_MARGIN = 44


@dataclass(frozen=True, slots=True)
class Point:
    """A value with what it may really be; None where that is unknown."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A named ratio with its interval."""

    label: str
    value: float
    low: float | None
    high: float | None
    kind: str
    """CSS class of its colour."""
    text: str
    is_total: bool = False
    """Of all the others; a line parts it from them."""


def forest(rows: Sequence[Row], band: tuple[float, float]) -> str:
    """One ratio per row around a line at 1, with a band in which a difference is none."""
    axis = around_one(
        [each for row in rows for each in (row.value, row.low, row.high) if each is not None],
        _label_width([row.label for row in rows]),
        WIDTH - _VALUE_WIDTH,
    )
    bottom = _ROW * len(rows) + 6
    left, right = (axis.place(edge) for edge in band)
    parts = [f'<rect class="band" x="{left:.1f}" y="0" width="{right - left:.1f}" height="{bottom}"/>']
    parts += _vertical_grid(axis, bottom, suffix="×")
    for index, row in enumerate(rows):
        if row.is_total and index:
            parts.append(_rule(_ROW * index + 3))
        parts += _forest_row(row, axis, _ROW * index + _ROW / 2 + 3)
    return _svg(WIDTH, bottom + 22, parts, "speedup with its interval, per category")


def bars(groups: Sequence[tuple[str, Sequence[tuple[str, Point]]]], unit: str, total: str = "") -> str:
    """Horizontal bars from 0, several per group: (group, [(class, value with its quartiles)]).

    total: the group of all the others; a line parts it from them.
    """
    points = [point for _, members in groups for _, point in members]
    label_width = _label_width([label for label, _ in groups])
    axis = from_zero([point.high or point.y for point in points], label_width, WIDTH - 60)
    height = _BAR * max((len(members) for _, members in groups), default=1) + 10
    bottom = height * len(groups) + 4
    parts = _vertical_grid(axis, bottom, suffix="")
    for index, (label, members) in enumerate(groups):
        top = height * index + 5
        if label == total and index:
            parts.append(_rule(top - 4))
        parts.append(_label(label, label_width, top + (height - 10) / 2 + 4, is_total=label == total))
        for place, (kind, point) in enumerate(members):
            parts += _bar(kind, point, axis, top + _BAR * place)
    return _svg(WIDTH, bottom + 22, parts, f"{unit} per category")


def lines(series: Sequence[tuple[str, Sequence[Point]]], x_label: str, y_label: str, *, unity: bool = False) -> str:
    """Curves over numbers: (class, points). With `unity`, a line at 1 to be above."""
    points = [point for _, each in series for point in each]
    x_axis = of_counts([point.x for point in points], _MARGIN, _LINES_WIDTH - 12)
    y_axis = from_zero([point.high or point.y for point in points] + [1.0], _LINES_HEIGHT - 36, 22)
    parts = []
    for tick in y_axis.ticks():
        at = y_axis.place(tick)
        parts.append(f'<line class="grid" x1="{_MARGIN}" x2="{_LINES_WIDTH - 12}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(_text(_MARGIN - 6, at + 4, f"{tick:g}", "end", "axis"))
    for tick in x_axis.ticks():
        parts.append(_text(x_axis.place(tick), _LINES_HEIGHT - 20, f"{tick:g}", "middle", "axis"))
    if unity:
        at = y_axis.place(1)
        parts.append(f'<line class="one" x1="{_MARGIN}" x2="{_LINES_WIDTH - 12}" y1="{at:.1f}" y2="{at:.1f}"/>')
    for kind, each in series:
        parts += _curve(kind, each, x_axis, y_axis)
    parts.append(_text((_MARGIN + _LINES_WIDTH) / 2, _LINES_HEIGHT - 4, x_label, "middle", "axis"))
    parts.append(_text(8, 12, y_label, "start", "axis"))
    return _svg(_LINES_WIDTH, _LINES_HEIGHT, parts, f"{y_label} over {x_label}")


def _forest_row(row: Row, axis: Axis, middle: float) -> list[str]:
    parts = [_label(row.label, axis.start, middle + 4, is_total=row.is_total)]
    if row.low is not None and row.high is not None:
        left, right = axis.place(row.low), axis.place(row.high)
        parts.append(
            f'<line class="whisker {row.kind}" x1="{left:.1f}" x2="{right:.1f}" y1="{middle:g}" y2="{middle:g}"/>'
        )
    parts.append(f'<circle class="dot {row.kind}" cx="{axis.place(row.value):.1f}" cy="{middle:g}" r="4.5"/>')
    kind = "value total" if row.is_total else "value"
    parts.append(_text(WIDTH - _VALUE_WIDTH + 10, middle + 4, row.text, "start", kind))
    return parts


def _bar(kind: str, point: Point, axis: Axis, top: float) -> list[str]:
    width = axis.place(point.y) - axis.start
    tip = f"<title>{point.y:.1f}</title>"
    parts = [
        f'<rect class="bar {kind}" x="{axis.start}" y="{top:g}" width="{width:.1f}" height="{_BAR - 1}">{tip}</rect>'
    ]
    if point.low is not None and point.high is not None:
        left, right, middle = axis.place(point.low), axis.place(point.high), top + (_BAR - 1) / 2
        parts.append(f'<line class="quartiles" x1="{left:.1f}" x2="{right:.1f}" y1="{middle:g}" y2="{middle:g}"/>')
    return parts


def _curve(kind: str, points: Sequence[Point], x_axis: Axis, y_axis: Axis) -> list[str]:
    places = [(x_axis.place(point.x), y_axis.place(point.y)) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline class="curve {kind}" points="{path}"/>']
    for point, (x, y) in zip(points, places, strict=True):
        if point.low is not None and point.high is not None:
            top, bottom = y_axis.place(point.high), y_axis.place(point.low)
            parts.append(f'<line class="error {kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>')
        tip = f"<title>{point.x:g}: {point.y:.3g}</title>"
        parts.append(f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{tip}</circle>')
    return parts


def _vertical_grid(axis: Axis, bottom: float, suffix: str) -> list[str]:
    parts = []
    for tick in axis.ticks():
        at = axis.place(tick)
        kind = "one" if axis.is_log and tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{bottom:g}"/>')
        parts.append(_text(at, bottom + 16, f"{tick:g}{suffix}", "middle", "axis"))
    return parts


def _label_width(labels: Sequence[str]) -> float:
    longest = max(map(len, labels), default=0) * _CHAR_WIDTH + 12
    return min(max(longest, _MIN_LABEL_WIDTH), _MAX_LABEL_WIDTH)


def _label(text: str, width: float, y: float, *, is_total: bool) -> str:
    """Left of the plot; one that is too long for that place is cut, and whole under the pointer."""
    most = int((width - 12) / _CHAR_WIDTH)
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return _text(width - 8, y, shown, "end", "label total" if is_total else "label", text if shown != text else "")


def _rule(y: float) -> str:
    return f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y:g}" y2="{y:g}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label", tip: str = "") -> str:
    title = f"<title>{escape(tip)}</title>" if tip else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{title}{escape(text)}</text>'


def _svg(width: float, height: float, parts: Sequence[str], name: str) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}">{"".join(parts)}</svg>'
