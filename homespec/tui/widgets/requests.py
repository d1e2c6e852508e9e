"""Requests in flight, one row each: numbers only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from homespec.status import RequestPhase, RequestStatus, Status
from homespec.tui.text import UNKNOWN, count, fit_right, fit_tail, number, percent
from homespec.tui.widgets.panel import MUTED, Line, Panel, line
from homespec.units import clean, format_duration

MIN_ID_WIDTH = 9
MAX_ID_WIDTH = 40


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table; narrow panels leave out those that are `wide`."""

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
WIDE_WIDTH = 100


class RequestsPanel(Panel):
    """Those in a slot first, then those that wait, and what is bet on for them; what does not fit is counted."""

    def __init__(self) -> None:
        super().__init__("requests")

    def title(self, status: Status) -> str:
        queue = status.queue
        return f"requests · {queue.running} running · {queue.waiting} waiting of at most {queue.limit}"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        columns = [column for column in COLUMNS if width >= WIDE_WIDTH or not column.wide]
        id_width = width - sum(column.width + 1 for column in columns)
        id_width = min(max(id_width, MIN_ID_WIDTH), MAX_ID_WIDTH)
        if not status.requests:
            return [_head(columns, id_width), line(("nothing in flight", MUTED))]
        return [_head(columns, id_width), *_rows(in_order(status), columns, id_width, height - 1)]


def in_order(status: Status) -> list[RequestStatus]:
    """By slot, the waiting ones last, the oldest of them first."""
    return sorted(status.requests, key=lambda request: (request.slot is None, request.slot or 0, -request.age_s))


def prefilled(request: RequestStatus) -> float | None:
    """Share of the prompt that is in the KV cache."""
    return request.num_prefilled_tokens / request.num_prompt_tokens if request.num_prompt_tokens else None


def _head(columns: list[Column], id_width: int) -> Line:
    names = "".join(f" {column.name:>{column.width}}" for column in columns)
    return line((f"{'id':<{id_width}}{names}", MUTED))


def _rows(requests: list[RequestStatus], columns: list[Column], id_width: int, height: int) -> list[Line]:
    # The title counts those that wait: only a running one is worth a line to say that it is missing.
    if all(request.phase is RequestPhase.WAITING for request in requests[height:]):
        rows = [_row(request, columns, id_width) for request in requests[:height]]
        return [*rows, *_decisions(requests)]
    kept = max(height - 1, 0)
    rows = [_row(request, columns, id_width) for request in requests[:kept]]
    return [*rows, line((f"+ {len(requests) - kept} more", MUTED))]


def _decisions(requests: list[RequestStatus]) -> list[Line]:
    """What the controller bets on for each request; below the table, where there is room left."""
    return [
        line((f"slot {request.slot} ▸ {clean(request.decision)}", MUTED))
        for request in requests
        if request.decision is not None and request.phase is RequestPhase.DECODE
    ]


def _row(request: RequestStatus, columns: list[Column], id_width: int) -> Line:
    cells = "".join(f" {fit_right(column.value(request), column.width)}" for column in columns)
    return line(f"{fit_tail(request.id, id_width)}{cells}")
