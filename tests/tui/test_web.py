"""The dashboard in a browser: the page, its websocket, and who may use it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from homespec.errors import ExitCode
from tests.client.daemon_double import DaemonDouble
from tests.daemons import run_command
from tests.tui import snapshots

from .web_page import web_page

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    with DaemonDouble() as daemon:
        daemon.send(snapshots.speculating())
        with web_page(daemon.url) as url:
            yield url


async def test_a_browser_sees_the_dashboard_and_its_keys_work(page: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(page) as response:
            assert response.status == 200
            assert "homespec" in await response.text()
        async with session.ws_connect(f"{page}/ws?width=100&height=30", origin=page) as socket:
            await _read_until(socket, b"83.1")
            await socket.send_json(["stdin", "?"])
            await _read_until(socket, b"help")


async def test_the_page_loads_nothing_from_elsewhere(page: str) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/static/js/textual.js"):
            async with session.get(page + path) as response:
                assert response.headers["Content-Security-Policy"].startswith("default-src 'self';")


@pytest.mark.parametrize("headers", [{"Host": "evil.example"}, {"Origin": "http://evil.example"}])
async def test_a_page_from_elsewhere_is_refused(page: str, headers: dict[str, str]) -> None:
    async with aiohttp.ClientSession() as session:
        for path in ("/", "/ws"):
            async with session.get(page + path, headers=headers) as response:
                assert response.status == 403


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        finished = run_command(tmp_path, "top", "--web", "--web-port", str(port))
    assert finished.code == ExitCode.ADDRESS_IN_USE
    assert str(port) in finished.complaint
    assert "--web-port" in finished.complaint


async def _read_until(socket: aiohttp.ClientWebSocketResponse, wanted: bytes) -> None:
    seen = b""
    async with asyncio.timeout(60):
        while wanted not in seen:
            message = await socket.receive()
            assert message.type is aiohttp.WSMsgType.BINARY or message.type is aiohttp.WSMsgType.TEXT
            seen += message.data if isinstance(message.data, bytes) else message.data.encode()
