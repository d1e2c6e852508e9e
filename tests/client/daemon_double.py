"""A stand-in for the daemon: real HTTP on a real port, in a thread of its own, saying exactly what a test tells it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import zip_longest
from typing import Any

import msgspec

from homespec.status import Status

REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Received:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(slots=True)
class Reply:
    """A whole answer: status, body, extra headers."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Cut:
    """A streamed answer that breaks off after some pieces."""

    pieces: Sequence[bytes] = ()


def sse(data: str | bytes) -> bytes:
    """One message of an event stream."""
    return b"data: " + (data.encode() if isinstance(data, str) else data) + b"\n\n"


def encoded(status: Status) -> bytes:
    """A snapshot as it goes over /events."""
    return sse(msgspec.json.encode(status))


class DaemonDouble:
    """Use as a context manager. Methods may be called from any thread; `replies` and `chat` are read per request.

    A new reader of /events gets what was last sent at once, as from the daemon.
    """

    def __init__(self, key: str | None = None) -> None:
        self.received: list[Received] = []
        self.replies: dict[str, Reply] = {"/health": Reply(200, b"{}")}
        self.chat: Sequence[bytes] = ()
        """Pieces of the streamed chat answer; each one is a network write of its own."""
        self.chat_times_s: Sequence[float] = ()
        """When each piece goes, in seconds after the request; without them all go at once."""
        self.on_chat: Callable[[Received], Reply | Cut | None] | None = None
        """What a chat request gets instead; None: `chat`. Called for each in the double's thread."""
        self.chat_stays_open = False
        """After the pieces, wait for the client to leave instead of ending the answer."""
        self.chat_breaks = False
        """After the pieces, drop the connection without ending the answer."""
        self.chats_left = 0
        """Clients that went away during an answer that stayed open."""
        self.port = 0
        self._key = key
        self._last: bytes = b": ping\n\n"
        self._queues: set[asyncio.Queue[bytes]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> DaemonDouble:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        """Listen; after `stop`, on the same port as before."""
        self._wait(self._start())

    def stop(self) -> None:
        """Stop listening and drop every connection."""
        self._wait(self._stop())

    def send(self, message: Status | bytes) -> None:
        """To every reader of /events, now and at the start of later ones."""
        data = encoded(message) if isinstance(message, Status) else message
        self._loop.call_soon_threadsafe(self._broadcast, data)

    def asked(self, path: str) -> list[Received]:
        """The requests for a path so far."""
        return [request for request in self.received if request.path == path]

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _broadcast(self, data: bytes) -> None:
        self._last = data
        for queue in self._queues:
            queue.put_nowait(data)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._answer(await _read_request(reader), reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, request: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.received.append(request)
        if self._key is not None and request.headers.get("authorization") != f"Bearer {self._key}":
            await _send(writer, Reply(401, b'{"error":{"message":"a key is needed"}}'))
        elif reply := self.replies.get(request.path):
            await _send(writer, reply)
        elif request.path == "/events":
            await self._stream_events(writer)
        elif request.path == "/v1/chat/completions":
            await self._answer_chat(self.on_chat(request) if self.on_chat else None, reader, writer)
        else:
            await _send(writer, Reply(404, b"not here"))

    async def _stream_events(self, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        queue.put_nowait(self._last)
        self._queues.add(queue)
        try:
            await _begin_stream(writer)
            while True:
                await _write_chunk(writer, await queue.get())
        finally:
            self._queues.discard(queue)

    async def _answer_chat(
        self, special: Reply | Cut | None, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match special:
            case Reply():
                await _send(writer, special)
            case Cut(pieces):
                await _begin_stream(writer)
                for piece in pieces:
                    await _write_chunk(writer, piece)
            case None:
                await self._stream_chat(reader, writer)

    async def _stream_chat(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _begin_stream(writer)
        asked_s = self._loop.time()
        for piece, at_s in zip_longest(self.chat, self.chat_times_s):
            if at_s is not None:
                await asyncio.sleep(asked_s + at_s - self._loop.time())
            await _write_chunk(writer, piece)
        if self.chat_stays_open:
            with contextlib.suppress(ConnectionError):
                await reader.read()
            self.chats_left += 1
        elif not self.chat_breaks:
            writer.write(b"0\r\n\r\n")
            await writer.drain()


async def _read_request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, path, headers, body)


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    await asyncio.sleep(reply.after_s)
    extra = "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
    head = f"HTTP/1.1 {reply.status} {REASONS[reply.status]}\r\ncontent-length: {len(reply.body)}\r\n{extra}\r\n"
    writer.write(head.encode() + reply.body)
    await writer.drain()


async def _begin_stream(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
    await writer.drain()


async def _write_chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()


def wait_until(condition: Callable[[], bool], timeout_s: float = 20) -> None:
    """Block until the condition holds; for tests that have no event loop."""
    happened = threading.Event()
    deadline = threading.Timer(timeout_s, happened.set)
    deadline.start()
    try:
        while not condition():
            assert not happened.wait(0.01), "the condition did not come true in time"
    finally:
        deadline.cancel()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
