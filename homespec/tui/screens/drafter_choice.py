"""The list from which the user picks what drafts."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from homespec.status import DrafterStatus, SpeculationStatus
from homespec.tui.line import MUTED
from homespec.tui.widgets.drafters import STATES, in_order
from homespec.units import clean

_SWITCHES = (("auto", "the daemon chooses"), ("off", "plain decoding"))


class DrafterChoice(ModalScreen[str | None]):
    """Dismissed with a mode, or with None when the user turned away."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,d,q", "dismiss_none", "close")]

    def __init__(self, speculation: SpeculationStatus | None) -> None:
        super().__init__()
        self._speculation = speculation

    def compose(self) -> ComposeResult:
        # One option per name: the daemon switches by name, and a list refuses an id that comes twice.
        drafters = in_order(self._speculation) if self._speculation else []
        options = {mode: _switch(mode, meaning) for mode, meaning in _SWITCHES}
        for drafter in drafters:
            options.setdefault(drafter.name, _drafter(drafter))
        yield OptionList(*(Option(text, id=mode) for mode, text in options.items()))

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.border_title = "what may draft"
        options.border_subtitle = "enter: choose   esc: close"
        mode = self._speculation.mode if self._speculation else "auto"
        ids = [option.id for option in options.options]
        options.highlighted = ids.index(mode) if mode in ids else 0

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_id)

    def action_dismiss_none(self) -> None:
        self.dismiss(None)


def _switch(mode: str, meaning: str) -> Content:
    return Content.assemble((f"{mode:<10}", "bold"), (meaning, MUTED))


def _drafter(drafter: DrafterStatus) -> Content:
    sign, style = STATES[drafter.state]
    return Content.assemble(
        (f"{clean(drafter.name):<10}", "bold"), (f"{sign} {drafter.state:<10}", style), (clean(drafter.reason), MUTED)
    )
