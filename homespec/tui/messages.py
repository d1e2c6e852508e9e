"""What the workers tell the app. Those that supersede an older one of the same daemon replace it in the queue."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from homespec.status import Status
from homespec.tui.admin import Outcome


@dataclass
class SnapshotReceived(Message):
    """A snapshot came and was understood."""

    url: str
    status: Status

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotReceived) and message.url == self.url


@dataclass
class SnapshotRejected(Message):
    """A snapshot came and could not be decoded."""

    url: str
    reason: str

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotRejected) and message.url == self.url


@dataclass
class ConnectionLost(Message):
    """The stream of snapshots ended or never began."""

    url: str
    text: str
    """What happened, naming the daemon."""
    retry_in_s: float

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ConnectionLost) and message.url == self.url


@dataclass
class Answered(Message):
    """The daemon answered what it was asked to do."""

    title: str
    outcome: Outcome


FromDaemon = SnapshotReceived | SnapshotRejected | ConnectionLost
