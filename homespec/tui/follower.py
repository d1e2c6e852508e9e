"""Follows /events for ever: decodes snapshots, reconnects with growing pauses. Posts messages and touches nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
from textual.message import Message

from homespec.client.failures import describe
from homespec.client.http import Client
from homespec.errors import HomespecError, RequestError
from homespec.status import Status
from homespec.tui.messages import ConnectionLost, SnapshotReceived, SnapshotRejected
from homespec.units import clean

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
REMEDY = " ('homespec serve' starts a daemon, --url names another)"
"""Told until the daemon has been seen: a daemon that was there before is known to be started somehow."""

Post = Callable[[Message], object]


async def follow(client: Client, post: Post, first_pause_s: float = FIRST_PAUSE_S) -> None:
    """Run until cancelled. The pause doubles with every failure and starts over after a snapshot."""
    decoder = msgspec.json.Decoder(Status)
    pause_s, remedy = first_pause_s, REMEDY
    while True:
        text = f"{client.url} ended the stream"
        try:
            async for data in client.events():
                post(_decoded(client.url, decoder, data))
                pause_s, remedy = first_pause_s, ""
        except RequestError as error:
            text = f"{client.url} refuses: {describe(error)}"
        except HomespecError as error:
            text = f"no connection to {client.url}: {error}{remedy}"
        post(ConnectionLost(client.url, text, pause_s))
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _decoded(url: str, decoder: msgspec.json.Decoder[Status], data: str) -> Message:
    try:
        return SnapshotReceived(url, decoder.decode(data))
    except msgspec.DecodeError as error:
        return SnapshotRejected(url, clean(str(error)))
