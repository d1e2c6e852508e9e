"""Streams on the wire: server-sent events, and one JSON object per line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from fastapi.responses import StreamingResponse
from sse_starlette import EventSourceResponse

from homespec.server.board import Board
from homespec.server.document import LINES
from homespec.server.events import Events
from homespec.supervisor import Supervisor

STATUS_INTERVAL_S = 0.4
PING_INTERVAL_S = 15
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def event_stream(events: Events) -> EventSourceResponse:
    """As OpenAI streams completions: data only, and [DONE] at the end, after an error too."""
    return _sse(_with_done(events))


def named_event_stream(events: Events) -> EventSourceResponse:
    """As OpenAI streams responses: each event under the name of its type."""
    return _sse(_named(events))


def line_stream(events: Events) -> StreamingResponse:
    """As Ollama streams: one JSON object per line."""
    return StreamingResponse(_lines(events), media_type=LINES, headers=_HEADERS)


def status_stream(board: Board, supervisor: Supervisor) -> EventSourceResponse:
    """Snapshots until the daemon stops; the last one says so."""
    return _sse(_snapshots(board, supervisor))


def _sse(events: AsyncIterator[bytes]) -> EventSourceResponse:
    """A response that proxies do not buffer and that pings while nothing happens."""
    return EventSourceResponse(events, ping=PING_INTERVAL_S, sep="\n", headers=_HEADERS)


def _data(event: Any) -> bytes:
    return b"data: " + _encode(event) + b"\n\n"


async def _with_done(events: Events) -> AsyncIterator[bytes]:
    async for event in events:
        yield _data(event)
    yield DONE


async def _named(events: Events) -> AsyncIterator[bytes]:
    async for event in events:
        yield b"event: " + str(event["type"]).encode() + b"\n" + _data(event)


async def _lines(events: Events) -> AsyncIterator[bytes]:
    async for event in events:
        yield _encode(event) + b"\n"


async def _snapshots(board: Board, supervisor: Supervisor) -> AsyncIterator[bytes]:
    while True:
        yield _data(board.status())
        if supervisor.stopping.is_set():
            return
        try:
            await asyncio.wait_for(supervisor.stopping.wait(), STATUS_INTERVAL_S)
        except TimeoutError:
            continue
