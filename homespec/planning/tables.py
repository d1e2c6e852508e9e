"""Reports as tables for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from homespec.planning.guidelines import Guidelines
from homespec.planning.pairing import PairVerdict
from homespec.planning.report import Report
from homespec.units import clean, format_bytes

_PARTS = ("weights", "kv", "compute", "output")
_PIPE_WIDTH = 200
_HOW_MANY = "how many tokens (D) to draft per round, should you want to set it; by itself homespec measures and decides"
_NO_DRAFTING = "the model makes embeddings: nothing is drafted"


def print_plan(report: Report, guide: Guidelines | None) -> None:
    """What goes where, which drafter gets in, and where to look for a good D; None: it makes embeddings."""
    out = _console()
    _line(out, _headline(report))
    for text in filter(None, (report["reason"], report["warning"])):
        _line(out, text)
    if not report["target"]["measured"]:
        _line(out, f"sizes are computed, not measured: {report['target']['note']}")
    out.print(_memory(report))
    if reclaimable := report["target"]["reclaimable_bytes"]:
        _line(out, f"{format_bytes(reclaimable)} of the mapped file are read once and may then be dropped")
    if report["drafters"]:
        out.print(_drafters(report))
    if report["proposal"]:
        _line(out, report["proposal"]["text"])
    if guide:
        _line(out, _HOW_MANY)
    for line in guide.lines() if guide else (_NO_DRAFTING,):
        _line(out, line)


def print_pairs(verdicts: Sequence[PairVerdict]) -> None:
    """A row per candidate, a line per failed check."""
    table = _table("drafter", "kind", "verdict", "why")
    for verdict in verdicts:
        why = "\n".join(verdict.failures) or "every check passed"
        table.add_row(_text(verdict.path), verdict.kind, "usable" if verdict.is_usable else "no", _text(why))
    _console().print(table)


def _console() -> Console:
    """For stdout: as wide as the terminal, wide enough for any reason where there is none."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def _headline(report: Report) -> str:
    target = report["target"]
    name = Path(report["model"]).name
    verdict = "fits" if report["fits"] else "does not fit"
    trained = report["facts"]["n_ctx_train"]
    settings = f"{target['n_ctx']} tokens of context (trained for {trained or 'n/a'}), KV {target['kv_type']}"
    return f"{name} {verdict}: {format_bytes(target['total_bytes'])} with {settings}"


def _memory(report: Report) -> Table:
    pools = report["pools"]
    table = _table("", *(_text(pool["name"]) for pool in pools), numbers=True)
    for name in ("total", "free", "reserve", "headroom"):
        table.add_row(name, *(format_bytes(pool[f"{name}_bytes"]) for pool in pools))
    for model in ("target", "drafter"):
        for part in _PARTS:
            sizes = [pool[model][f"{part}_bytes"] if pool[model] else 0 for pool in pools]
            if any(sizes):
                table.add_row(f"{model} {part}", *(format_bytes(size) for size in sizes))
    table.add_row("headroom after", *(format_bytes(pool["headroom_after_bytes"]) for pool in pools))
    return table


def _drafters(report: Report) -> Table:
    table = _table("drafter", "verdict", "rho", "expected", "why")
    for verdict in report["drafters"]:
        name = Path(verdict["path"]).name if verdict["path"] else "free drafters"
        speedup, cost = verdict["expected_speedup"], verdict["rho"]
        table.add_row(
            _text(name),
            "in" if verdict["admitted"] else "out",
            "n/a" if cost is None else f"{cost:.2f}",
            "n/a" if speedup is None else f"{speedup:.2f}x at D = {verdict['num_draft_tokens']}",
            _text(verdict["reason"]),
        )
    return table


def _table(*headings: str, numbers: bool = False) -> Table:
    """Columns that break a long text instead of cutting it; numbers: behind the first column stand only those."""
    table = Table(box=None, pad_edge=False)
    for index, heading in enumerate(headings):
        table.add_column(heading, overflow="fold", justify="right" if numbers and index else "left")
    return table


def _line(console: Console, text: str) -> None:
    console.print(_text(text), highlight=False, soft_wrap=True)


def _text(text: str) -> str:
    """Names of files may hold anything, rich's markup included."""
    return escape("\n".join(clean(line) for line in text.split("\n")))
