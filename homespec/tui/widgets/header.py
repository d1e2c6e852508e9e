"""The top line: which daemon, in which phase, with which model, for how long."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from homespec.status import Phase, Status
from homespec.tui.line import MUTED, line
from homespec.tui.text import age, fit
from homespec.units import clean, format_duration

PHASES = {
    Phase.LOADING: ("◐", "$text-accent"),
    Phase.READY: ("●", "$text-success"),
    Phase.IDLE: ("○", "$text-muted"),
    Phase.RESTARTING: ("◌", "$text-warning"),
    Phase.STALLED: ("▲", "$text-error"),
    Phase.STOPPING: ("◌", "$text-warning"),
    Phase.FAILED: ("✗", "$text-error"),
}
"""A sign and a style for each phase; the word always stands beside them."""


class Header(Widget):
    """Identity on the left, age of everything on the right; the model's name takes what is left over."""

    status: reactive[Status | None] = reactive(None)
    stale_s: reactive[int | None] = reactive(None)
    """Age of the numbers in seconds once they are no longer live."""

    def render(self) -> Content:
        if self.status is None:
            return line(("homespec", "bold"))
        left = self._identity(self.status)
        right = self._age(self.status)
        room = self.content_size.width - left.cell_length - right.cell_length - 1
        return line(left, fit(_model_text(self.status, room), max(room, 0)), " ", right)

    def _identity(self, status: Status) -> Content:
        sign, style = PHASES[status.phase]
        phase = (f"{sign} {status.phase}", f"bold {style}")
        if self.stale_s is not None:
            phase = (f"? stale {age(self.stale_s)}", "bold $text-warning")
        return line(("homespec", "bold"), (f" {clean(status.version)}  ", MUTED), phase, "  ")

    def _age(self, status: Status) -> Content:
        restarts = f"{status.engine.restarts} restarts" if status.engine.restarts != 1 else "1 restart"
        # The label belongs to a model; before one is loaded there is nothing to promise.
        label = clean(status.exactness) if status.model else ""
        return line((label, "bold"), (f"  up {format_duration(status.uptime_s)}  {restarts}", MUTED))


def _model_text(status: Status, room: int) -> str:
    """The model's id, and after it those facts that there is room for."""
    model = status.model
    if model is None:
        return "no model yet"
    flash = "flash attention" if model.flash_attention else "no flash attention"
    devices = "+".join(model.devices)
    facts = [model.description, f"n_ctx {model.n_ctx}", f"{model.slots} slots", f"KV {model.kv_type}", flash]
    text, joint = clean(model.id), "  "
    for fact in map(clean, [*facts, f"{model.threads} threads", devices]):
        if cell_len(text + joint + fact) > room:
            break
        text, joint = text + joint + fact, " · "
    return text
