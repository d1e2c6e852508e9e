"""The report for a terminal: tables, an interval drawn beside each ratio, and curves of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate, cycle
from typing import TextIO

import plotext
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from homespec.bench import words
from homespec.bench.axis import Axis, around_one
from homespec.bench.report import OVERALL, Comparison, Report, SideResult
from homespec.bench.sweep import Curves, sweep_of
from homespec.bench.verdict import Verdict
from homespec.units import clean

PIPE_WIDTH = 120
_MIN_DRAWING_WIDTH, _MAX_DRAWING_WIDTH = 9, 33
_WIDTH_OF_THE_REST = 68
_WIDTH_WITHOUT_DRAWING = 58
_GAP = 2
"""Between two columns."""
_PLOT_WIDTH, _PLOT_HEIGHT = 100, 14
_MARKERS = ("braille", "dot", "x", "*")
_STYLES = {Verdict.FASTER: "green", Verdict.SLOWER: "red"}


def print_report(report: Report, file: TextIO) -> None:
    width = None if file.isatty() else PIPE_WIDTH
    console = Console(file=file, width=width, highlight=False, markup=False, emoji=False)
    # A pipe gets each sentence on one line.
    say = partial(console.print, soft_wrap=not file.isatty())
    say(clean(words.what_was_measured(report)))
    for baseline in dict.fromkeys(each.baseline for each in report.overall.comparisons):
        for table in _comparison_tables(report, baseline, console.width):
            console.print("", table)
    if hindsight := _hindsight_table(report, console.width):
        console.print("", hindsight)
    console.print("", _side_table(report, console.width) or "no prompt was answered by all sides", "")
    if curves := _curves(report, console.width):
        console.print(Text.from_ansi(curves))
    for line in _last_words(report):
        say(clean(line))


def _comparison_tables(report: Report, baseline: str, width: int) -> list[Table]:
    """One for each side that was compared with this baseline; the sides of a sweep share one, without categories."""
    swept = {side.name for side in report.sides if side.swept}
    compared = [each for each in report.overall.comparisons if each.baseline == baseline]
    tables = []
    for each in compared:
        if each.side not in swept:
            found = [(group.name, group.comparison(each.side, baseline)) for group in report.groups]
            tables.append(_ratio_table(f"{each.side} ÷ {baseline}", [(name, c) for name, c in found if c], width))
    if of_sweep := [(each.side, each) for each in compared if each.side in swept]:
        tables.append(_ratio_table(f"every D ÷ {baseline}, all categories", of_sweep, width))
    return tables


def _hindsight_table(report: Report, width: int) -> Table | None:
    found = [
        (f"{group.name}: {group.hindsight.baseline}", group.hindsight) for group in report.groups if group.hindsight
    ]
    return _ratio_table("auto ÷ the fixed setting that was fastest", found, width) if found else None


def _ratio_table(title: str, rows: Sequence[tuple[str, Comparison]], width: int) -> Table:
    table = _table(title)
    table.add_column("", no_wrap=True)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("interval", justify="right", no_wrap=True)
    if is_drawn := width >= _WIDTH_OF_THE_REST + _MIN_DRAWING_WIDTH:
        table.add_column("− ↔ +", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    if is_counted := width >= _WIDTH_WITHOUT_DRAWING:
        table.add_column("same", justify="right", no_wrap=True)
    values = [value for _, each in rows for value in (each.ratio, each.low, each.high) if value is not None]
    drawing_width = min(max(width - _WIDTH_OF_THE_REST, _MIN_DRAWING_WIDTH), _MAX_DRAWING_WIDTH)
    axis = around_one(values, 0, drawing_width - 1)
    for name, each in rows:
        style = "bold" if name.startswith(OVERALL) else ""
        table.add_row(
            name,
            str(each.num_pairs),
            words.times(each.ratio),
            words.span(each.low, each.high),
            *([_drawn(each, axis)] if is_drawn else []),
            Text(each.verdict, style=_STYLES.get(each.verdict, "")),
            *([f"{each.num_identical}/{each.num_pairs}"] if is_counted else []),
            style=style,
        )
    return table


def _table(title: str) -> Table:
    """As narrow as can be: all of it is to fit into 80 columns."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 0, 0, 1),
        pad_edge=False,
        show_edge=False,
    )


def _drawn(each: Comparison, axis: Axis) -> Text:
    """`   ├──●──┤`, with a line at 1."""
    cells = [" "] * (round(axis.end) + 1)
    cells[round(axis.place(1))] = "│"
    if each.low is not None and each.high is not None:
        left, right = round(axis.place(each.low)), round(axis.place(each.high))
        cells[left : right + 1] = "├" + "─" * (right - left - 1) + "┤" if right > left else "┼"
    if each.ratio is not None:
        cells[round(axis.place(each.ratio))] = "●"
    return Text("".join(cells), style=_STYLES.get(each.verdict, "dim"))


def _side_table(report: Report, width: int) -> Table | None:
    """None when no prompt was answered by all of them. What has no room is left out, from the right."""
    table = _table("sides")
    # A sweep of many sides in every category fills screens: the page has them.
    groups = [report.overall] if any(side.swept for side in report.sides) else report.groups
    cells = [
        _side_cells(group.name if index == 0 else "", name, result)
        for group in groups
        for index, (name, result) in enumerate(group.sides.items())
    ]
    if not cells:
        return None
    # What nobody says has no column.
    names = [name for name in cells[0] if any(row[name] != words.UNKNOWN for row in cells)]
    widths = [_GAP + max(len(text) for text in (*name.split("\n"), *(row[name] for row in cells))) for name in names]
    names = [name for name, end in zip(names, accumulate(widths), strict=True) if end <= width + _GAP]
    for name in names:
        table.add_column(name, justify="left" if name in ("", "side") else "right", no_wrap=True)
    num_overall = len(report.overall.sides)
    for index, row in enumerate(cells):
        is_overall = index >= len(cells) - num_overall
        table.add_row(*(row[name] for name in names), style="bold" if is_overall else "")
    return table


def _side_cells(group: str, side: str, result: SideResult) -> dict[str, str]:
    speed, first = result.tokens_per_second, result.time_to_first_token_s
    return {
        "": group,
        "side": side,
        "tok/s": words.number(speed.median if speed else None, 1),
        "TTFT\nms": words.number(first.median * 1000 if first else None, 0),
        "AL": words.number(result.acceptance_length),
        "accepted": words.percent(result.acceptance_rate),
        "rows\n/tok": words.number(result.rows_per_token),
        "draft\nms": words.number(result.draft_ms_per_round),
        "verify\nms": words.number(result.verify_ms_per_round),
    }


def _curves(report: Report, width: int) -> str:
    """Speed and acceptance length over D, a curve for each drafter; empty without a sweep."""
    sweep = sweep_of(report)
    drawn = [("speed ÷ plain over D", sweep.ratios), ("acceptance length over D", sweep.lengths)]
    return "\n\n".join(_plot(title, curves, width) for title, curves in drawn if curves)


def _plot(title: str, curves: Curves, width: int) -> str:
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plotsize(min(width, _PLOT_WIDTH), _PLOT_HEIGHT)
    plotext.title(title)
    for marker, (drafter, points) in zip(cycle(_MARKERS), curves.items(), strict=False):
        plotext.plot([point.x for point in points], [point.y for point in points], label=drafter, marker=marker)
    plotext.xticks(sorted({int(point.x) for points in curves.values() for point in points}))
    return str(plotext.build())


def _last_words(report: Report) -> list[str]:
    early = [f"not a whole run: {report.ended_early}"] if report.ended_early else []
    return [words.memory_text(report), *report.notes, *early, *words.headline(report)]
