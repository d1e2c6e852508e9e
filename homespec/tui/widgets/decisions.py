"""What is bet on for each sequence, and who is left alone for now."""

from __future__ import annotations

from collections.abc import Iterator

from homespec.status import RequestPhase, RequestStatus, Status
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.request_table import in_order
from homespec.tui.text import fit, number
from homespec.tui.widgets.costs import controller_of
from homespec.tui.widgets.panel import NOT_LOADED, Panel
from homespec.units import clean

_HEAD_WIDTH = len("slot 12 suffix   AL 12.34  ")


class DecisionsPanel(Panel):
    """One entry per sequence that decodes, then the drafters that are paused."""

    def __init__(self) -> None:
        super().__init__("decisions")

    def title(self, status: Status) -> str:
        speculation = status.speculation
        if speculation is None:
            return "decisions"
        return f"decisions · mode {clean(speculation.mode)} · D up to {speculation.max_draft_tokens}"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        if status.speculation is None:
            return [line((NOT_LOADED, MUTED))]
        decoding = [request for request in in_order(status) if request.phase is RequestPhase.DECODE]
        rows = [each for request in decoding for each in _decision(request, width)]
        if not rows:
            rows = [line(("nothing decodes", MUTED)), *wrapped(status.speculation.reason, width)]
        return [*rows, *_paused(status, width)]


def _decision(request: RequestStatus, width: int) -> Iterator[Line]:
    who = fit(request.drafter or "plain", 8)
    head = f"slot {request.slot!s:<2} {who} AL {number(request.acceptance_length, 2):<6}"
    text = request.decision or f"D {request.num_draft_tokens}; the controller was not asked"
    first, *rest = wrapped(text, width - _HEAD_WIDTH)
    yield line((f"{head:<{_HEAD_WIDTH}}", MUTED), first)
    for part in rest:
        yield line(" " * _HEAD_WIDTH, part)


def _paused(status: Status, width: int) -> Iterator[Line]:
    controller = controller_of(status)
    for name, reason in sorted(controller.paused.items()) if controller else ():
        yield from wrapped(f"‖ {name} {reason}", width, "$text-warning")
