"""The report as one page that holds everything it shows: no script, no request to anywhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.resources import files

import jinja2
from markupsafe import Markup

from homespec.bench import svg, words
from homespec.bench.report import OVERALL, Group, Report, SideResult
from homespec.bench.sides import PLAIN
from homespec.bench.svg import Point, Row
from homespec.bench.sweep import sweep_of
from homespec.bench.verdict import TOLERANCE, Verdict
from homespec.units import format_bytes

NUM_COLOURS = 6
_KINDS = {Verdict.FASTER: "good", Verdict.SLOWER: "bad"}


@dataclass(frozen=True, slots=True)
class SideTable:
    titles: list[str]
    rows: list[tuple[str, str, dict[str, str]]]
    """Category, side, and its cells by title."""


@dataclass(frozen=True, slots=True)
class Figure:
    key: dict[str, str]
    """Names and the CSS classes of their colours."""
    plot: Markup


def render_html(report: Report) -> str:
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string(files("homespec.bench").joinpath("data/report.html.j2").read_text("utf-8"))
    return template.render(
        report=report,
        words=words,
        bytes_text=format_bytes,
        when=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.time_unix)),
        subtitle=words.what_was_measured(report),
        headline=words.headline(report),
        side_table=_side_table(report),
        forests=_forests(report),
        speeds=_speeds(report),
        sweeps=_sweeps(report),
        positions=_positions(report),
        verify=_verify(report),
    )


def _colours(report: Report) -> dict[str, str]:
    """CSS class of each side, the same in all plots; plain is always grey, and all D of a drafter share one."""
    key_of = {side.name: (side.swept, side.drafter if side.swept else side.name) for side in report.sides}
    del key_of[PLAIN]
    place_of = {key: index for index, key in enumerate(dict.fromkeys(key_of.values()))}
    return {PLAIN: "plain"} | {name: f"c{place_of[key] % NUM_COLOURS}" for name, key in key_of.items()}


def _side_table(report: Report) -> SideTable:
    """Without the columns that nobody fills."""
    rows = [(group.name, name, _side_cells(result)) for group in report.groups for name, result in group.sides.items()]
    titles = [
        title for title in (rows[0][2] if rows else {}) if any(cells[title] != words.UNKNOWN for *_, cells in rows)
    ]
    return SideTable(titles, rows)


def _side_cells(result: SideResult) -> dict[str, str]:
    drafted = f"{result.accepted} / {result.drafted} ({words.percent(result.acceptance_rate)})"
    drafters = ", ".join(f"{name} {rounds}" for name, rounds in result.drafters.items())
    return {
        "tokens/s": words.spread_text(result.tokens_per_second),
        "first token, ms": words.spread_text(result.time_to_first_token_s, 0, 1000),
        "AL": words.number(result.acceptance_length),
        "accepted / drafted": drafted if result.drafted else words.UNKNOWN,
        "rows per token": words.number(result.rows_per_token),
        "draft ms": words.number(result.draft_ms_per_round),
        "verify ms": words.number(result.verify_ms_per_round),
        "drafters (rounds)": drafters or words.UNKNOWN,
        "peak RSS": words.UNKNOWN if result.peak_rss_bytes is None else format_bytes(result.peak_rss_bytes),
    }


def _forests(report: Report) -> list[tuple[str, Markup]]:
    """A title and a plot for each pair of sides that was not swept."""
    swept = {side.name for side in report.sides if side.swept}
    plots = []
    for compared in report.overall.comparisons:
        if compared.side not in swept:
            rows = [row for group in report.groups if (row := _row(group, compared.side, compared.baseline))]
            if rows:
                plot = Markup(svg.forest(rows, (1 - TOLERANCE, 1 + TOLERANCE)))
                plots.append((f"Speed of {compared.side} ÷ {compared.baseline}", plot))
    return plots


def _row(group: Group, side: str, baseline: str) -> Row | None:
    each = group.comparison(side, baseline)
    if each is None or each.ratio is None:
        return None
    interval = "" if each.low is None else f" ({words.span(each.low, each.high)})"
    kind, text = _KINDS.get(each.verdict, "same"), words.times(each.ratio) + interval
    return Row(group.name, each.ratio, each.low, each.high, kind, text, is_total=group.name == OVERALL)


def _speeds(report: Report) -> Figure | None:
    """Of a sweep there is the curve over D instead."""
    colours = _colours(report)
    shown = [side.name for side in report.sides if not side.swept and side.name in report.overall.sides]
    groups = []
    for group in report.groups:
        members = [
            (colours[name], Point(0, speed.median, speed.q1, speed.q3))
            for name in shown
            if name in group.sides and (speed := group.sides[name].tokens_per_second) is not None
        ]
        if members:
            groups.append((group.name, members))
    if len(shown) < 2 or not groups:
        return None
    return Figure({name: colours[name] for name in shown}, Markup(svg.bars(groups, "tokens/s", OVERALL)))


def _sweeps(report: Report) -> list[Figure]:
    sweep, colour_of = sweep_of(report), _colours(report)
    colours = {str(side.drafter): colour_of[side.name] for side in report.sides if side.swept}
    return [
        _curves(series, "D, most tokens drafted per round", label, colours, unity=True)
        for series, label in ((sweep.lengths, "acceptance length"), (sweep.ratios, "speed ÷ plain"))
        if series
    ]


def _positions(report: Report) -> Figure | None:
    """Of a sweep, for the largest D of each drafter."""
    largest = {side.drafter: side.name for side in report.sides if side.swept}
    series = {
        side.name: [
            Point(index + 1, share)
            for index, share in enumerate(report.overall.sides[side.name].acceptance_per_position)
        ]
        for side in report.sides
        if side.name in report.overall.sides and (not side.swept or largest[side.drafter] == side.name)
    }
    drawn = {name: points for name, points in series.items() if points}
    if not drawn:
        return None
    return _curves(drawn, "position in the draft", "share of rounds that accepted it", _colours(report))


def _verify(report: Report) -> Figure | None:
    """One curve per context."""
    series = {
        "short context" if cost.context is None else f"{cost.context} tokens of context": [
            Point(rows, milliseconds) for rows, milliseconds in cost.points
        ]
        for cost in report.verify_cost
    }
    colours = {name: f"c{index % NUM_COLOURS}" for index, name in enumerate(series)}
    return _curves(series, "rows of a target pass", "milliseconds", colours) if series else None


def _curves(
    series: dict[str, list[Point]], x_label: str, y_label: str, colours: dict[str, str], *, unity: bool = False
) -> Figure:
    key = {name: colours[name] for name in series}
    drawn = [(key[name], points) for name, points in series.items()]
    return Figure(key, Markup(svg.lines(drawn, x_label, y_label, unity=unity)))
