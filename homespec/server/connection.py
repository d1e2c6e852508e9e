"""One connection of a client, and what it may cost before its request is there: anybody in the network can open one."""

from __future__ import annotations

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from homespec.server.open_files import max_connections

MAX_HEAD_BYTES = 64 * 1024
"""Of a request line with headers, or of anything else that is no body; up to 256 KiB where they come in one piece."""
RECEIVE_TIMEOUT_S = 60.0
"""For a request to arrive, and for a connection to send one."""

_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    b'{"error":{"message":"the head of the request is over %d bytes; send fewer or shorter headers",'
    b'"type":"invalid_request_error","param":null,"code":"head_too_large"}}' % MAX_HEAD_BYTES
)


class Connection(HttpToolsProtocol):
    """uvicorn's, with limits on size, time and number; of too many, those that ask for nothing give way.

    A request to go on in another protocol is answered in this one, as HTTP wants it: with its body, which httptools
    would take for the other protocol's. Java's HTTP client asks for HTTP/2 that way, unless told otherwise.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._num_pending = 0
        """Bytes since something was complete."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_upgrade = False
        self._since = self.loop.time()
        self._running: RequestResponseCycle | None = None
        """The last request that was begun; `cycle` is the last that came."""

    @property
    def is_answering(self) -> bool:
        """A request has arrived as a whole, and its answer has not left."""
        running = self._running
        return running is not None and not running.more_body and not running.response_complete

    # What asyncio calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()
        if len(self.connections) > max_connections():
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)
        running = self._running
        if running is not None and not running.response_complete:  # uvicorn tells the last that came only
            running.disconnected = True
            running.message_event.set()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._start_timer()
        self._num_pending += len(data)
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")
            return
        if self._num_pending > MAX_HEAD_BYTES and not self.transport.is_closing():
            if not self.is_answering:
                self.transport.write(_TOO_LARGE)
            self.transport.close()

    # What the parser calls

    def on_message_begin(self) -> None:
        self._start_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._num_pending = 0
        self._is_upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._is_upgrade:
            return
        has_to_wait = self.cycle is not None and not self.cycle.response_complete
        super().on_headers_complete()
        if not has_to_wait:
            self._running = self.cycle

    def on_body(self, body: bytes) -> None:
        self._num_pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._is_upgrade:
            self._num_pending = 0
            self._stop_timer()
            super().on_message_complete()

    # What an answer calls at its end

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._running = self.pipeline[-1][0]
        super().on_response_complete()

    # One protocol only

    def _feed(self, data: bytes) -> None:
        """Raises HttpParserError."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed(self._without_upgrade() + data[upgrade.args[0] :])

    def _without_upgrade(self) -> bytes:
        """The head of the request once more, for a new parser."""
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return b"\r\n".join(lines) + b"\r\n\r\n"

    # Limits

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(RECEIVE_TIMEOUT_S, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.is_answering:  # the next request may wait
            self._start_timer()
        else:
            self.transport.close()

    def _make_room(self) -> None:
        """End the oldest connection without a request, else the oldest whose client does not read, else this one."""
        others = [each for each in self.connections if isinstance(each, Connection) and each is not self]
        idle = [each for each in others if not each.is_answering]
        stuck = [each for each in others if each.flow.write_paused]
        min(idle or stuck or [self], key=lambda each: each._since).transport.abort()
