"""What a user can have done from the dashboard, each with a key and a line in the command palette."""

from __future__ import annotations

import io
from collections.abc import Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from homespec.tui.admin import Outcome, cancel_request, reload_drafter
from homespec.tui.dashboard import Dashboard
from homespec.tui.export import file_name, self_contained, snapshot_json
from homespec.tui.screens.confirm import Confirm
from homespec.units import clean

SNAPSHOT = "snapshot"
"""Name of a delivery: other files that Textual saves are no business of ours."""


class Orders(Dashboard):
    """What cannot be taken back is asked about first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "cancel_request", "cancel request", show=False),
        Binding("r", "reload_drafter", "reload drafter", show=False),
        Binding("y", "copy_reason", "copy reason", show=False),
        Binding("e", "export", "export", show=False),
    ]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield SystemCommand("Cancel request", "End the selected request (x)", self.action_cancel_request)
        yield SystemCommand("Reload drafter", "Load the draft model anew from its file (r)", self.action_reload_drafter)
        yield SystemCommand(
            "Copy reason", "Put the reason on the screen into the clipboard (y)", self.action_copy_reason
        )
        yield SystemCommand("Export", "Write the snapshot as JSON and the screen as SVG (e)", self.action_export)

    def action_cancel_request(self) -> None:
        request = self.view.selected_request
        if request is None:
            self._refuse("cancel", "no request is selected: 2 shows them all, and the arrow keys select one")
            return
        text = f"{request.id} ({request.phase}, {request.num_output_tokens} tokens answered) gets an error"
        order = partial(cancel_request, self.client, request.id)
        self.push_screen(Confirm("cancel this request?", text, "cancel it"), partial(self._if, "cancel", order))

    def action_reload_drafter(self) -> None:
        text = "the draft model is unloaded and loaded again from its file; answers go on without it meanwhile"
        order = partial(reload_drafter, self.client)
        self.push_screen(Confirm("reload the drafter?", text, "reload it"), partial(self._if, "reload", order))

    def action_copy_reason(self) -> None:
        """Through the terminal (OSC 52), so that it works over SSH."""
        reason = self.view.reason
        if reason is None:
            self._refuse("copy", "there is no reason on the screen")
            return
        self.copy_to_clipboard(clean(reason))
        self.notify(clean(reason), title="copied", markup=False)

    def action_export(self) -> None:
        """Two files in the working directory; in a browser, two downloads."""
        status = self.status
        if status is None:
            self._refuse("export", "no snapshot has come yet")
            return
        self._deliver(snapshot_json(status).decode(), file_name(status, "json"), "application/json")
        self._deliver(self_contained(self.export_screenshot()), file_name(status, "svg"), "image/svg+xml")

    def on_delivery_complete(self, event: events.DeliveryComplete) -> None:
        if event.name == SNAPSHOT:
            self.notify(str(event.path or "sent to the browser"), title="exported", timeout=8, markup=False)

    def on_delivery_failed(self, event: events.DeliveryFailed) -> None:
        if event.name == SNAPSHOT:
            self._refuse("export", clean(str(event.exception)))

    def _deliver(self, text: str, name: str, mime_type: str) -> None:
        self.deliver_text(
            io.StringIO(text), save_directory=Path.cwd(), save_filename=name, mime_type=mime_type, name=SNAPSHOT
        )

    def _if(self, title: str, order: partial[Coroutine[None, None, Outcome]], agreed: bool | None) -> None:
        if agreed:
            self.ask(title, order())

    def _refuse(self, title: str, text: str) -> None:
        self.notify(text, title=title, severity="warning", markup=False)
