"""The candidates for drafting, and why each one got in or not."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len

from homespec.memory_plan import Verdict
from homespec.status import Status
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.text import number
from homespec.tui.widgets.drafters import STATES, in_order
from homespec.tui.widgets.panel import NOT_LOADED, Panel
from homespec.units import clean, format_bytes

ADMITTED, REFUSED = ("✓", "$text-success"), ("✗", "$text-warning")
_SIGN_WIDTH = 2


class VerdictsPanel(Panel):
    """The plan's verdicts first; where there was no plan, the state of each drafter with its reason."""

    def __init__(self) -> None:
        super().__init__("verdicts")

    def title(self, status: Status) -> str:
        return "candidates"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        plan = status.memory.plan if status.memory else None
        verdicts = [each for verdict in plan.verdicts for each in _verdict(verdict, width)] if plan else []
        return [*verdicts, *_states(status, width)] or [line((NOT_LOADED, MUTED))]


def _verdict(verdict: Verdict, width: int) -> Iterator[Line]:
    name = "free drafters" if verdict.path is None else clean(verdict.path).rsplit("/", 1)[-1]
    facts = []
    if verdict.needed_bytes is not None:
        facts.append(format_bytes(verdict.needed_bytes))
    if verdict.expected_speedup is not None:
        facts.append(f"{number(verdict.expected_speedup, 2)}× expected at D {verdict.num_draft_tokens}")
    yield line(ADMITTED if verdict.is_admitted else REFUSED, " ", (name, "bold"))
    yield from _indented(" · ".join([*facts, verdict.reason]), width)


def _states(status: Status, width: int) -> Iterator[Line]:
    """As they are now: what got in may have left since."""
    if status.speculation is None:
        return
    for drafter in in_order(status.speculation):
        sign, style = STATES[drafter.state]
        head, reason = f"{sign} {clean(drafter.name):<8} {drafter.state:<9}", clean(drafter.reason)
        if len(head) + cell_len(reason) <= width:
            yield line((head, style), (reason, MUTED))
        else:
            yield line((head, style))
            yield from _indented(reason, width)


def _indented(text: str, width: int) -> Iterator[Line]:
    for part in wrapped(text, width - _SIGN_WIDTH, MUTED):
        yield line(" " * _SIGN_WIDTH, part)
