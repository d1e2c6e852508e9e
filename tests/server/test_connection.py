"""What a connection may cost whoever serves it: bytes, time, files; and that no protocol but HTTP/1 comes in."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from homespec.server import connection
from homespec.server.connection import MAX_HEAD_BYTES, Connection
from homespec.server.open_files import Shortage, max_connections, raise_limit
from tests.daemons import eventually

HEALTH = b"GET /health HTTP/1.1\r\nHost: box\r\n\r\n"
BODY = b'{"prompt": "Hi"}'


class Served:
    """A server with our connections; its application answers with what it was sent."""

    def __init__(self) -> None:
        self.num_streams = 0
        config = uvicorn.Config(
            self._app, port=0, http=Connection, ws="none", lifespan="off", log_config=None, interface="asgi3"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        eventually(lambda: self._server.started, "the server listens")
        self._address = self._server.servers[0].sockets[0].getsockname()

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def connect(self) -> socket.socket:
        return socket.create_connection(self._address, timeout=20)

    def ask(self, *parts: bytes) -> bytes:
        """All that comes back for it."""
        with self.connect() as client:
            for part in parts:
                client.sendall(part)
            return everything(client)

    def num_connections(self) -> int:
        return len(self._server.server_state.connections)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        if scope["path"] == "/endless":
            await self._stream(receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps([scope["path"], body.decode()]).encode()})

    async def _stream(self, receive: Receive, send: Send) -> None:
        self.num_streams += 1
        try:
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"some", "more_body": True})
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self.num_streams -= 1


def everything(client: socket.socket) -> bytes:
    received = b""
    try:
        while part := client.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def is_closed(client: socket.socket) -> bool:
    return everything(client) == b""


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    yield server
    server.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr(connection, "RECEIVE_TIMEOUT_S", 0.3)
    server = Served()
    yield server
    server.close()


def post(*headers: str, chunked: bool = False) -> bytes:
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(BODY)}"
    body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY) if chunked else BODY
    lines = ["POST /echo HTTP/1.1", "Host: box", *headers, length]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class TestUpgrade:
    """Java's HTTP client asks for HTTP/2 with every first request, also with one that has a body."""

    JAVA = ("Connection: Upgrade, HTTP2-Settings, close", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__")

    @pytest.mark.parametrize("chunked", [False, True])
    def test_a_body_arrives_all_the_same(self, served: Served, chunked: bool) -> None:
        response = served.ask(post(*self.JAVA, chunked=chunked))
        assert response.startswith(b"HTTP/1.1 200")
        assert json.dumps(["/echo", BODY.decode()]).encode() in response

    def test_a_body_that_comes_later_arrives(self, served: Served) -> None:
        request = post(*self.JAVA)
        assert json.dumps(["/echo", BODY.decode()]).encode() in served.ask(request[:-10], request[-10:])

    def test_the_connection_stays_of_use(self, served: Served) -> None:
        upgrade = HEALTH.replace(b"Host", b"Connection: Upgrade\r\nUpgrade: h2c\r\nHost")
        last = HEALTH.replace(b"Host", b"Connection: close\r\nHost")
        assert served.ask(upgrade, post(), last).count(b"HTTP/1.1 200") == 3

    def test_a_websocket_is_none(self, served: Served) -> None:
        response = served.ask(HEALTH.replace(b"Host", b"Connection: Upgrade, close\r\nUpgrade: websocket\r\nHost"))
        assert response.startswith(b"HTTP/1.1 200")

    def test_a_tunnel_is_refused(self, served: Served) -> None:
        assert served.ask(b"CONNECT box:80 HTTP/1.1\r\nHost: box\r\n\r\n").startswith(b"HTTP/1.1 400")


class TestSize:
    @pytest.mark.parametrize(
        "start",
        [
            b"GET /health?",
            b"GET /health HTTP/1.1\r\nX: ",
            b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: ",
        ],
        ids=["line", "header", "trailer"],
    )
    def test_what_never_becomes_a_request_is_not_kept(self, served: Served, start: bytes) -> None:
        with served.connect() as client:
            client.sendall(start)
            with pytest.raises(OSError, match=r"reset|pipe"):
                client.sendall(b"a" * 1000 * MAX_HEAD_BYTES)
        eventually(lambda: served.num_connections() == 0, "the connection is gone")

    def test_the_refusal_names_the_limit(self, served: Served) -> None:
        with served.connect() as client:
            client.sendall(b"GET /health HTTP/1.1\r\nX: ")
            client.sendall(b"a" * (MAX_HEAD_BYTES + 1))
            head, _, body = everything(client).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 431")
        assert str(MAX_HEAD_BYTES) in json.loads(body)["error"]["message"]

    def test_a_large_body_is_no_head(self, served: Served) -> None:
        size = 20 * MAX_HEAD_BYTES
        head = b"POST /echo HTTP/1.1\r\nHost: box\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
        assert len(served.ask(head, b"a" * size)) > size


class TestTime:
    @pytest.mark.parametrize("start", [b"", b"\r\n", b"GET /hea", HEALTH[:-2], post()[:-1]])
    def test_a_request_that_does_not_arrive_is_given_up(self, impatient: Served, start: bytes) -> None:
        with impatient.connect() as client:
            client.sendall(start)
            assert is_closed(client)

    def test_an_answer_takes_its_time(self, impatient: Served) -> None:
        """Whatever else has begun to come in over its connection."""
        with impatient.connect() as client:
            client.sendall(b"GET /endless HTTP/1.1\r\nHost: box\r\n\r\nGET /hea")
            client.settimeout(1.0)
            with pytest.raises(TimeoutError):
                everything(client)
            assert impatient.num_streams == 1


class TestNumber:
    def test_those_that_ask_for_nothing_give_way(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "max_connections", lambda: 10)
        with ExitStack() as stack:
            busy = stack.enter_context(served.connect())
            busy.sendall(b"GET /endless HTTP/1.1\r\nHost: box\r\n\r\n")
            eventually(lambda: served.num_streams, "the stream runs")
            crowd = [stack.enter_context(served.connect()) for _ in range(30)]
            assert is_closed(crowd[0])
            eventually(lambda: served.num_connections() <= 10, "there are no more than allowed")
            assert served.num_streams == 1
            assert served.ask(HEALTH.replace(b"Host", b"Connection: close\r\nHost")).startswith(b"HTTP/1.1 200")

    def test_one_too_many_is_closed_where_all_are_busy(self, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connection, "max_connections", lambda: 1)
        with served.connect() as busy:
            busy.sendall(b"GET /endless HTTP/1.1\r\nHost: box\r\n\r\n")
            eventually(lambda: served.num_streams, "the stream runs")
            with served.connect() as late:
                assert is_closed(late)
            assert served.num_streams == 1

    def test_clients_never_take_all_files(self) -> None:
        assert 1 <= max_connections() <= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


def test_a_stream_ends_with_its_client_although_another_request_waits_behind_it(served: Served) -> None:
    with served.connect() as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: box\r\n\r\n" + HEALTH)
        eventually(lambda: served.num_streams, "the stream runs")
        client.recv(1024)
    eventually(lambda: served.num_streams == 0, "the stream has ended")


class TestFiles:
    def test_the_limit_is_raised_as_far_as_the_system_allows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        taken: list[Any] = []
        monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
        monkeypatch.setattr(resource, "setrlimit", lambda _, limits: taken.append(limits))
        raise_limit()
        assert taken == [(4096, resource.RLIM_INFINITY)]

    async def test_that_no_connection_can_be_taken_is_said_once(self, caplog: pytest.LogCaptureFixture) -> None:
        shortage, loop = Shortage(), asyncio.get_running_loop()
        for _ in range(100):
            shortage(loop, {"exception": OSError(errno.EMFILE, "Too many open files"), "socket": object()})
        [record] = caplog.records
        assert record.levelno == logging.ERROR
        assert not record.exc_info
        assert "ulimit -n" in record.getMessage()

    async def test_another_fault_is_told_as_ever(self, caplog: pytest.LogCaptureFixture) -> None:
        Shortage()(asyncio.get_running_loop(), {"message": "something broke"})
        assert "something broke" in caplog.text
