"""The plan against reality: what each part was expected to take, and what llama.cpp allocated for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from homespec.memory_plan import PlannedModel
from homespec.status import MemoryStatus, ModelMemory, Status
from homespec.tui.line import MUTED, Line, line, wrapped
from homespec.tui.text import UNKNOWN
from homespec.tui.widgets.panel import NOT_LOADED, Panel
from homespec.units import MIB, clean, format_bytes

LABEL_WIDTH = 9
SIZE_WIDTH = 9
DIFFERENCE_WIDTH = 7
_PARTS: dict[str, Callable[[PlannedModel | ModelMemory], int]] = {
    "": attrgetter("total_bytes"),
    " weights": attrgetter("weights_bytes"),
    " KV": attrgetter("kv_bytes"),
    " compute": attrgetter("compute_bytes"),
}
"""By label; the whole model stands under its own name."""


class PlanPanel(Panel):
    """A row per part of each model; the difference has a sign, and nothing is claimed where there was no plan."""

    def __init__(self) -> None:
        super().__init__("plan")

    def title(self, status: Status) -> str:
        return "plan against reality"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        memory = status.memory
        if memory is None:
            return [line((NOT_LOADED, MUTED))]
        return [_row("", "planned", "allocated", "off MiB", MUTED), *_models(memory), *_remarks(memory, width)]


def _models(memory: MemoryStatus) -> Iterator[Line]:
    plan = memory.plan
    yield from _model("target", plan.target if plan else None, memory.target)
    drafter = plan.drafter if plan else None
    if drafter is not None or memory.drafter.total_bytes:
        yield from _model("drafter", drafter, memory.drafter)


def _model(name: str, planned: PlannedModel | None, allocated: ModelMemory) -> Iterator[Line]:
    for label, size_of in _PARTS.items():
        got, wanted = size_of(allocated), None if planned is None else size_of(planned)
        off = UNKNOWN if wanted is None else _difference((got - wanted) / MIB)
        shown = UNKNOWN if wanted is None else format_bytes(wanted)
        yield _row(label or name, shown, format_bytes(got), off, "" if label else "bold")


def _difference(mib: float) -> str:
    return f"{mib:+z.1f}" if abs(mib) < 1000 else f"{mib:+.0f}"


def _remarks(memory: MemoryStatus, width: int) -> Iterator[Line]:
    plan = memory.plan
    if plan is None:
        yield from wrapped("nothing was estimated before the load", width, MUTED)
        return
    target = plan.target
    source = "measured by a dry run" if target.measured else f"computed, {clean(target.note)}"
    facts = f"{target.n_ctx} tokens · KV {target.kv_type} · {source} · grows by {format_bytes(target.growth_bytes)}"
    yield from wrapped(facts, width, MUTED)
    for change in plan.changes:
        yield from wrapped(change, width)


def _row(label: str, planned: str, allocated: str, off: str, style: str) -> Line:
    cells = f"{label:<{LABEL_WIDTH}}{planned:>{SIZE_WIDTH}} {allocated:>{SIZE_WIDTH}} {off:>{DIFFERENCE_WIDTH}}"
    return line((cells, style))
