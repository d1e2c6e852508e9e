"""Requests as a table of numbers, and one of them in full. Pure: never text of a prompt or an answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from homespec.status import RequestStatus, Status
from homespec.tui.glyphs import TRACK, bar_cells
from homespec.tui.line import FAINT, MUTED, Line, line, wrapped
from homespec.tui.text import UNKNOWN, count, fit_right, fit_tail, number, percent
from homespec.units import clean, format_duration, format_rate

MIN_ID_WIDTH = 9
MAX_ID_WIDTH = 40
WIDE_WIDTH = 100
LABEL_WIDTH = 9
METER_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table; narrow tables leave out those that are `wide`."""

    name: str
    width: int
    value: Callable[[RequestStatus], str]
    wide: bool = False


COLUMNS = (
    Column("slot", 4, lambda request: UNKNOWN if request.slot is None else str(request.slot)),
    Column("phase", 7, lambda request: request.phase),
    Column("prompt", 6, lambda request: count(request.num_prompt_tokens), wide=True),
    Column("reused", 6, lambda request: count(request.num_cached_tokens), wide=True),
    Column("prefill", 7, lambda request: percent(prefilled(request))),
    Column("out", 5, lambda request: count(request.num_output_tokens)),
    Column("tok/s", 6, lambda request: number(request.tokens_per_second)),
    Column("AL", 5, lambda request: number(request.acceptance_length, 2)),
    Column("acc", 5, lambda request: percent(request.acceptance_rate)),
    Column("drafter", 7, lambda request: clean(request.drafter or UNKNOWN)),
    Column("D", 2, lambda request: str(request.num_draft_tokens)),
    Column("age", 6, lambda request: format_duration(request.age_s)),
)


def in_order(status: Status) -> list[RequestStatus]:
    """By slot, the waiting ones last, the oldest of them first."""
    return sorted(status.requests, key=lambda request: (request.slot is None, request.slot or 0, -request.age_s))


def prefilled(request: RequestStatus) -> float | None:
    """Share of the prompt that is in the KV cache."""
    return request.num_prefilled_tokens / request.num_prompt_tokens if request.num_prompt_tokens else None


def head(width: int) -> Line:
    """The names of the columns that a table of this width has."""
    columns, id_width = _layout(width)
    names = "".join(f" {column.name:>{column.width}}" for column in columns)
    return line((f"{'id':<{id_width}}{names}", MUTED))


def row(request: RequestStatus, width: int) -> Line:
    """One request; the end of its id, because ids differ there."""
    columns, id_width = _layout(width)
    cells = "".join(f" {fit_right(column.value(request), column.width)}" for column in columns)
    return line(f"{fit_tail(request.id, id_width)}{cells}")


def details(request: RequestStatus, width: int) -> list[Line]:
    """Everything that is known of one request."""
    prompt = f"{request.num_prefilled_tokens} of {request.num_prompt_tokens} prompt tokens, "
    prompt += f"{request.num_cached_tokens} reused"
    spent = f"{request.num_output_tokens} tokens, {format_rate(request.tokens_per_second)}"
    drafting = "nothing drafted yet"
    if request.acceptance_length is not None:
        drafting = f"AL {number(request.acceptance_length, 2)}, accepted {percent(request.acceptance_rate)}"
        drafting += f", last round {clean(request.drafter or 'plain')} D {request.num_draft_tokens}"
    place = "waits for a slot" if request.slot is None else f"slot {request.slot}"
    return [
        line((clean(request.id), "bold")),
        _labelled("state", f"{request.phase}, {place}, since {format_duration(request.age_s)}"),
        _meter("prefill", prefilled(request), prompt),
        _labelled("output", spent),
        _labelled("drafts", drafting),
        *_paragraph("decision", request.decision or "the controller was not asked", width),
    ]


def _layout(width: int) -> tuple[list[Column], int]:
    """Columns that fit, and the width that is left for the id."""
    columns = [column for column in COLUMNS if width >= WIDE_WIDTH or not column.wide]
    id_width = width - sum(column.width + 1 for column in columns)
    return columns, min(max(id_width, MIN_ID_WIDTH), MAX_ID_WIDTH)


def _labelled(label: str, text: str) -> Line:
    return line((f"{label:<{LABEL_WIDTH}}", MUTED), text)


def _paragraph(label: str, text: str, width: int) -> list[Line]:
    first, *rest = wrapped(text, width - LABEL_WIDTH)
    return [line((f"{label:<{LABEL_WIDTH}}", MUTED), first), *(line(" " * LABEL_WIDTH, part) for part in rest)]


def _meter(label: str, share: float | None, text: str) -> Line:
    filled = bar_cells(share or 0.0, METER_WIDTH)
    rest = (TRACK * (METER_WIDTH - len(filled)), FAINT)
    return line((f"{label:<{LABEL_WIDTH}}", MUTED), (filled, "$primary"), rest, f" {percent(share):>5} {text}")
