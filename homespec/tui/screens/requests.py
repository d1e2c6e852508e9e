"""Every request in flight in numbers, and one of them in full."""

from __future__ import annotations

from collections.abc import Iterator

from textual.containers import Vertical
from textual.widget import Widget

from homespec.status import RequestStatus, Status
from homespec.tui.line import MUTED, Line, line
from homespec.tui.request_table import details, head, in_order, row
from homespec.tui.screens.view import View
from homespec.tui.widgets.panel import Panel
from homespec.tui.widgets.requests import requests_title
from homespec.tui.widgets.rows import Rows


class RequestsView(View):
    """A table with a cursor above, the request under the cursor below."""

    NAME = "requests"

    def body(self) -> Iterator[Widget]:
        with Vertical(id="table", classes="framed"):
            yield _Head().data_bind(View.status)
            yield Rows[RequestStatus](row, lambda request: request.id, name="rows")
        yield RequestPanel().data_bind(View.status)

    def watch_status(self, status: Status | None) -> None:
        if status is None:
            return
        self.entitle("#table", requests_title(status))
        self.query_one("#rows", Rows).show(in_order(status))

    def on_mount(self) -> None:
        self.query_one(Rows).focus()

    def on_rows_moved(self) -> None:
        self.query_one(RequestPanel).show(self.selected_request)

    @property
    def selected_request(self) -> RequestStatus | None:
        selected: RequestStatus | None = self.query_one(Rows).selected
        return selected

    @property
    def reason(self) -> str | None:
        request = self.selected_request
        return request.decision if request else None


class _Head(Panel):
    """The names of the columns."""

    def __init__(self) -> None:
        super().__init__("head")

    def title(self, status: Status) -> str:
        return ""

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        # The sign of the cursor stands in front of the rows.
        return [line(" ", head(width - 1))]


class RequestPanel(Panel):
    """The request under the cursor in full."""

    def __init__(self) -> None:
        super().__init__("request")
        self._request: RequestStatus | None = None

    def show(self, request: RequestStatus | None) -> None:
        self._request = request
        self.watch_status(self.status)

    def title(self, status: Status) -> str:
        return "request"

    def lines(self, status: Status, width: int, height: int) -> list[Line]:
        if self._request is None:
            return [line(("nothing chosen: no request is in flight", MUTED))]
        return details(self._request, width)
