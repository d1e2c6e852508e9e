"""One daemon as it is watched: its newest snapshot, how the connection stands, and what was seen over time."""

from __future__ import annotations

import time

from homespec.client.http import Client
from homespec.status import Status
from homespec.tui.event_log import EventLog
from homespec.tui.history import History, sample_of
from homespec.tui.messages import ConnectionLost, FromDaemon, SnapshotReceived, SnapshotRejected
from homespec.tui.notice import SILENCE_S, Link, LinkState, Notice, notice_of


class Watch:
    """Changed by the messages of its follower, read by whoever draws."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.history = History()
        self.log = EventLog()
        self.link = Link()
        self.latest: Status | None = None
        self.received_at_s = time.monotonic()

    @property
    def url(self) -> str:
        return self.client.url

    @property
    def name(self) -> str:
        """Short enough for a tab: host and port."""
        return self.url.removeprefix("http://").removeprefix("https://")

    def take(self, message: FromDaemon) -> None:
        """Take in what the follower says."""
        match message:
            case SnapshotReceived(_, status):
                self.latest = status
                self.received_at_s = time.monotonic()
                self.link = Link(LinkState.LIVE)
                self.history.add(sample_of(status, self.received_at_s))
                self.log.add(status)
            case SnapshotRejected(_, reason):
                self.link = Link(LinkState.UNREADABLE, reason)
            case ConnectionLost(_, text, retry_in_s):
                self.link = Link(LinkState.LOST, text, time.monotonic() + retry_in_s)

    def stale_s(self, now_s: float) -> int | None:
        """Age in whole seconds of numbers that are no longer live; None while they are, or while there are none."""
        age_s = now_s - self.received_at_s
        live = self.link.state is LinkState.LIVE and age_s <= SILENCE_S
        return None if live or self.latest is None else int(age_s)

    def notice(self, now_s: float, status: Status | None, *, paused: bool) -> Notice:
        """What is most pressing about this daemon while `status` is on the screen."""
        return notice_of(self.url, self.link, status, now_s - self.received_at_s, now_s, paused)
