"""What all screens of the dashboard share: the lines around the body, and the snapshot that it draws."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

from homespec.status import RequestStatus, Status
from homespec.tui.notice import Level, Notice
from homespec.tui.watch import Watch
from homespec.tui.widgets.banner import Banner
from homespec.tui.widgets.daemon_bar import DaemonBar
from homespec.tui.widgets.header import Header
from homespec.tui.widgets.key_bar import KeyBar
from homespec.tui.widgets.view_bar import ViewBar


class View(Screen[None]):
    """Drawn from snapshots of one daemon. Only the view on the screen is given any: hidden ones cost nothing."""

    NAME: ClassVar[str]

    # A screen that repaints itself repaints every widget; these only feed the widgets bound to them.
    status: reactive[Status | None] = reactive(None, repaint=False)
    """The snapshot on the screen."""
    stale_s: reactive[int | None] = reactive(None, repaint=False)
    notice: reactive[Notice] = reactive(Notice(Level.INFO, ""), repaint=False)

    def __init__(self) -> None:
        super().__init__()
        self._headings: dict[str, str] = {}

    def compose(self) -> ComposeResult:
        yield Header().data_bind(View.status, View.stale_s)
        yield DaemonBar()
        yield ViewBar(self.NAME)
        yield Banner().data_bind(View.notice)
        yield from self.body()
        yield KeyBar()

    def body(self) -> Iterator[Widget]:
        """The widgets between the lines above and the footer."""
        raise NotImplementedError

    def take(self, watch: Watch, status: Status | None, now_s: float, *, paused: bool) -> None:
        """Show a snapshot of the daemon that is watched, and how old it is."""
        self.query_one(ViewBar).watching(watch.name)
        if not paused or self.status is None:
            self.fed(watch)
        self.status = status
        self.stale_s = watch.stale_s(now_s)
        self.notice = watch.notice(now_s, status, paused=paused)
        self.set_class(self.stale_s is not None, "-stale")

    def entered(self) -> None:
        """The user has come to this view; not when a question that lay over it is gone."""

    def fed(self, watch: Watch) -> None:
        """Before a new snapshot: for views that draw what was seen over time."""

    def entitle(self, selector: str, title: str) -> None:
        """Give a part of the view its heading."""
        # Setting a title paints the whole part, even when it is the same again.
        if self._headings.get(selector) != title:
            self._headings[selector] = title
            self.query_one(selector).border_title = Content(title)

    @property
    def selected_request(self) -> RequestStatus | None:
        """The request that an action is meant for."""
        return None

    @property
    def reason(self) -> str | None:
        """The reason that the user is looking at, in one line."""
        speculation = self.status.speculation if self.status else None
        return speculation.reason if speculation else None
