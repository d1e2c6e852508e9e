"""The same report as a page, in a terminal and as JSON."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from homespec.bench.costs import VerifyCost
from homespec.bench.report import Report
from homespec.bench.report_html import render_html
from homespec.bench.report_json import render_json
from homespec.bench.report_terminal import print_report
from homespec.bench.sides import sides_of
from homespec.bench.trial import Failure, FailureKind
from homespec.errors import ExitCode
from tests.kits.trials import drafted, report_of, trial, turn, two_sided

RATIOS = {"copy": [2.0, 2.1, 2.2, 1.9, 2.0], "prose": [1.0, 0.99, 1.01, 1.0, 1.0], "qa": [0.8, 0.81, 0.79, 0.8, 0.8]}


def swept() -> Report:
    sides = sides_of(["ngram", "draft"], None, (0, 2, 4), against=False)
    speeds = {side.name: 50.0 + 5 * index for index, side in enumerate(sides)}
    trials = [drafted(side.name, str(i), speeds[side.name] + i) for side in sides[1:] for i in range(6)]
    return report_of([*trials, *(trial("plain", str(i)) for i in range(6))], sides)


def with_another_server() -> Report:
    sides = sides_of(["auto"], None, (), against=True)
    other = [replace(trial("other server", f"copy-{i}"), turns=(turn(40.0 + i, rounds=None),)) for i in range(5)]
    return report_of([*two_sided({"copy": RATIOS["copy"]}), *other], sides)


def hostile() -> Report:
    report = report_of(two_sided({"<script>[bold]&": RATIOS["copy"]}))
    return replace(report, failures=(Failure('"><img src=x>', "auto", FailureKind.REFUSED, "[red]<b>&</b>"),))


MEASURED = (VerifyCost(32, ((1, 10.0), (4, 21.5), (8, 40.0))), VerifyCost(1024, ((1, 12.0), (4, 25.0), (8, 47.0))))
REPORTS = {
    "three verdicts": report_of(two_sided(RATIOS)),
    "sweep": swept(),
    "another server": with_another_server(),
    "one prompt": report_of(two_sided({"prose": [1.2]})),
    "nothing in common": report_of([trial("plain", "a"), trial("auto", "b")]),
    "one trial": report_of([trial("plain", "q")], ended_early="interrupted"),
    "measured cost": replace(report_of(two_sided(RATIOS)), verify_cost=MEASURED),
    "hostile": hostile(),
    "long names": report_of(two_sided({"throughput_16k_of_mixed_entropy_and_more": RATIOS["copy"], "x": RATIOS["qa"]})),
}


def parsed(report: Report) -> ET.Element:
    return ET.fromstring(render_html(report).removeprefix("<!DOCTYPE html>"))


each_report = pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)


@each_report
def test_the_page_is_well_formed_and_asks_nobody_for_anything(report: Report) -> None:
    root = parsed(report)
    assert root.tag == "html"
    [style] = root.iter("style")
    assert not re.search(r"@import|url\(", style.text or "")
    assert "prefers-color-scheme: dark" in (style.text or "")
    for element in root.iter():
        assert element.tag not in {"script", "img", "link", "iframe", "object", "use", "image"}
        assert not {"src", "href", "style", "background"} & set(element.attrib)
        assert not any(name.startswith("on") or "nan" in value for name, value in element.attrib.items())


@each_report
def test_every_place_in_a_plot_is_inside_it(report: Report) -> None:
    for plot in parsed(report).iter("svg"):
        width, height = map(float, plot.attrib["viewBox"].split()[2:])
        for element in plot.iter():
            for name, limit in (("x", width), ("x1", width), ("x2", width), ("cx", width)):
                assert 0 <= float(element.get(name, 0)) <= limit
            for name in ("y", "y1", "y2", "cy"):
                assert 0 <= float(element.get(name, 0)) <= height


CHAR_WIDTH = 6.5
"""Of 12 pixels of a common font."""


@each_report
def test_no_name_runs_out_of_a_plot_or_into_it(report: Report) -> None:
    for plot in parsed(report).iter("svg"):
        for element in plot.iter("text"):
            if element.get("text-anchor") == "end":
                shown = "".join(element.itertext()).removeprefix(element.findtext("title") or "")
                assert float(element.get("x", 0)) >= len(shown) * CHAR_WIDTH, shown


def test_a_name_that_was_cut_is_whole_under_the_pointer() -> None:
    page = render_html(REPORTS["long names"])
    assert "<title>throughput_16k_of_mixed_entropy_and_more</title>throughput_16k_of_mixed" in page


def side_table(report: Report) -> list[list[str]]:
    """The texts of its cells."""
    [table] = [each for each in parsed(report).iter("table") if "tokens/s" in "".join(each.itertext())]
    return [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]


def test_the_sides_have_no_column_that_nobody_fills() -> None:
    head, *rows = side_table(REPORTS["one trial"])
    assert head == ["category", "side", "tokens/s", "first token, ms", "AL", "rows per token", "peak RSS"]
    assert [row[:2] for row in rows] == [["prose", "plain"], ["overall", "plain"]]
    assert "accepted / drafted" in side_table(REPORTS["three verdicts"])[0]


def test_a_run_without_a_pair_has_no_empty_tables() -> None:
    assert "Comparisons" not in render_html(REPORTS["one trial"])
    assert "Comparisons" in render_html(REPORTS["one prompt"])


def test_a_side_has_the_same_colour_in_every_plot() -> None:
    page = render_html(report_of(two_sided(RATIOS), sides_of(["off", "auto"], None, (), against=False)))
    assert len(set(re.findall(r'<i class="(\w+)"></i>auto', page))) == 1
    swept = re.findall(r'<i class="(\w+)"></i>(?:ngram|ngram D=4)<', render_html(REPORTS["sweep"]))
    assert len(swept) == 3
    assert len(set(swept)) == 1


def test_a_ratio_without_an_interval_has_none_beside_it() -> None:
    texts = [element.text for element in parsed(REPORTS["one prompt"]).iter("text")]
    assert texts.count("1.20×") == 2


def test_colours_of_the_page_are_all_defined() -> None:
    for report in REPORTS.values():
        page = render_html(report)
        defined = set(re.findall(r"--([\w-]+):", page))
        assert set(re.findall(r"var\(--([\w-]+)\)", page)) <= defined
        kinds = {
            kind for kinds in re.findall(r'class="(?:dot|bar|whisker|curve|error) (\w+)"', page) for kind in [kinds]
        }
        assert kinds <= defined


@each_report
def test_json_can_be_read_by_anyone_and_holds_no_text_of_an_answer(report: Report) -> None:
    body = json.loads(render_json(report), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert body["exit_code"] == report.exit_code
    assert len(body["trials"]) == len(report.trials)
    assert "words" not in json.dumps(body["trials"])
    assert [group["name"] for group in body["categories"]] == [group.name for group in report.categories]


def printed(report: Report) -> str:
    file = io.StringIO()
    print_report(report, file)
    return file.getvalue()


@each_report
def test_the_terminal_has_no_line_too_long_and_no_control_character(report: Report) -> None:
    text = printed(report)
    body = text.splitlines()[: -len(report.notes) - 4]
    assert max(map(len, body), default=0) <= 120
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)


def test_the_terminal_tells_the_verdicts_and_the_last_line_is_the_overall_one() -> None:
    lines = printed(REPORTS["three verdicts"]).splitlines()
    [copy] = [line for line in lines if line.split()[:1] == ["copy"] and "×" in line]
    assert "faster" in copy
    assert "2.04×" in copy
    assert "5/5" in copy
    [qa] = [line for line in lines if line.split()[:1] == ["qa"] and "×" in line]
    assert "slower" in qa
    [prose] = [line for line in lines if line.split()[:1] == ["prose"] and "×" in line]
    assert "no difference" in prose
    assert lines[-1].startswith("auto against plain: ")
    assert REPORTS["three verdicts"].exit_code == ExitCode.SLOWER


def test_the_terminal_draws_a_sweep() -> None:
    text = printed(REPORTS["sweep"])
    assert "ngram D=2" in text
    assert "speed ÷ plain over D" in text
    assert "acceptance length over D" in text
    assert "overall: draft D=4" in text
    sentences = text.splitlines()[-4:]
    assert sentences[1].startswith("the fastest D of ngram: ngram D=4 against plain: faster")
    assert sentences[3].startswith("chosen afterwards: auto against draft D=4: faster")


def test_a_run_that_ended_early_says_so_everywhere() -> None:
    report = REPORTS["one trial"]
    for text in (printed(report), render_html(report), render_json(report)):
        assert "interrupted" in text


def test_the_page_draws_what_a_pass_costs_for_each_context() -> None:
    page = render_html(REPORTS["measured cost"])
    assert "32 tokens of context" in page
    assert "1024 tokens of context" in page
    assert "milliseconds over rows of a target pass" in page


@pytest.mark.parametrize("width", [40, 50, 66, 76])
def test_a_narrow_terminal_leaves_columns_out_and_cuts_no_number(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Narrow(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")  # of a dumb one the width is not asked
    out = Narrow()
    print_report(report_of(two_sided({"prose": [1.5] * 6})), out)
    told = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    tables = [line for line in told.splitlines() if line.startswith(("prose", "overall", " "))]
    for number in ("1.50×", "1.50–1.50", "50.0"):
        assert any(number in line for line in tables)
    assert not any("…" in line for line in tables)
