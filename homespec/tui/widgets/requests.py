"""Requests in flight, one row each: numbers only."""

from __future__ import annotations

from homespec.status import RequestPhase, RequestStatus, Status
from homespec.tui.line import MUTED, Line, line
from homespec.tui.request_table import head, in_order, row
from homespec.tui.widgets.panel import Panel
from homespec.units import clean, format_duration


class RequestsPanel(Panel):
    """Those in a slot first, then those that wait, and what is bet on for them; what does not fit is counted."""

    def __init__(self) -> None:
        super().__init__("requests")

    def title(self, status: Status) -> str:
        return requests_title(status)

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        if not status.requests:
            return [head(width), line(("nothing in flight", MUTED))]
        return [head(width), *_rows(in_order(status), width, height - 1)]


def requests_title(status: Status) -> str:
    """How many run and wait, and how long the first token took."""
    queue, first = status.queue, status.first_token
    title = f"requests · {queue.running} running · {queue.waiting} waiting of at most {queue.limit}"
    if first.last_s is None:
        return title
    return f"{title} · TTFT {format_duration(first.last_s)}, median {format_duration(first.median_s)}"


def _decisions(requests: list[RequestStatus]) -> list[Line]:
    """What the controller bets on for each request that decodes."""
    return [
        line((f"slot {request.slot} ▸ {clean(request.decision)}", MUTED))
        for request in requests
        if request.decision is not None and request.phase is RequestPhase.DECODE
    ]


def _rows(requests: list[RequestStatus], width: int, height: int) -> list[Line]:
    # The title counts those that wait: only a running one is worth a line to say that it is missing.
    if all(request.phase is RequestPhase.WAITING for request in requests[height:]):
        rows = [row(request, width) for request in requests[:height]]
        return [*rows, *_decisions(requests)]
    kept = max(height - 1, 0)
    return [*(row(request, width) for request in requests[:kept]), line((f"+ {len(requests) - kept} more", MUTED))]
