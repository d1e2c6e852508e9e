"""What the workers tell the app. Those that supersede an older one replace it in the queue."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from homespec.status import Status


@dataclass
class SnapshotReceived(Message):
    """A snapshot came and was understood."""

    status: Status

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotReceived)


@dataclass
class SnapshotRejected(Message):
    """A snapshot came and could not be decoded."""

    reason: str

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotRejected)


@dataclass
class ConnectionLost(Message):
    """The stream of snapshots ended or never began."""

    text: str
    """What happened, naming the daemon."""
    retry_in_s: float

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ConnectionLost)


@dataclass
class DrafterSwitched(Message):
    """The daemon answered a request to switch the drafter."""

    text: str
    refused: bool
