"""Reading the Host header and the key, without a server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from homespec.server.auth import Guard, allowed_host_names, bearer_key, host_name


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (["localhost"], "localhost"),
        (["LocalHost:8642"], "localhost"),
        (["127.0.0.1:8642"], "127.0.0.1"),
        (["[::1]"], "::1"),
        (["[::1]:8642"], "::1"),
        (["box.lan:"], "box.lan"),
        ([], None),
        ([""], None),
        ([":8642"], None),
        (["[::1"], None),
        (["localhost", "evil.example"], None),
        (["localhost", "localhost"], None),
    ],
)
def test_host_name(headers: list[str], expected: str | None) -> None:
    assert host_name(headers) == expected


@pytest.mark.parametrize(
    "header",
    ["evil.example@localhost", "localhost@evil.example", "localhost/evil.example", "localhost?", "localhost#x"],
)
def test_a_malformed_host_is_no_name(header: str) -> None:
    assert host_name([header]) is None


@given(st.lists(st.text(), max_size=3))
def test_host_name_never_raises(headers: list[str]) -> None:
    name = host_name(headers)
    assert name is None or (len(headers) == 1 and name == name.lower())


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_what_counts_as_this_machine_was_meant(header: str) -> None:
    """No header that holds anything but an allowed name and a port is let in."""
    if host_name([header]) in allowed_host_names(None, ("box.lan",)):
        name, _, port = header.lower().rpartition(":") if not header.endswith("]") else (header.lower(), "", "")
        assert {header.lower(), name} & {"localhost", "127.0.0.1", "[::1]", "box.lan"}
        assert not port or port.isdigit() or header.lower() in {"localhost", "127.0.0.1", "box.lan"}


def test_allowed_host_names() -> None:
    assert allowed_host_names(None, ()) == {"localhost", "127.0.0.1", "::1"}
    assert "box.lan" in allowed_host_names(None, ("Box.LAN",))
    assert "192.168.1.5" in allowed_host_names("192.168.1.5", ())


def request_with(**headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw})


@pytest.mark.parametrize(
    ("headers", "key"),
    [
        ({}, ""),
        ({"authorization": "Bearer abc"}, "abc"),
        ({"authorization": "bearer   abc "}, "abc"),
        ({"authorization": "Bearer"}, ""),
        ({"authorization": "Basic abc"}, ""),
        ({"x_api_key": "abc"}, "abc"),
        ({"authorization": "Bearer abc", "x_api_key": "def"}, "abc"),
    ],
)
def test_bearer_key(headers: dict[str, str], key: str) -> None:
    assert bearer_key(request_with(**headers)) == key


async def let_in(guard_keys: set[str], path: str, **headers: bytes) -> bool:
    """Whether a request passes the guard, as the HTTP server hands it over."""
    passed: list[bool] = []

    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        passed.append(True)

    async def receive() -> Message:
        raise AssertionError("no body is read")

    async def send(_: Message) -> None:
        pass

    fields = [(name.encode(), value) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "scheme": "http", "path": path, "query_string": b"", "headers": fields}
    await Guard(app, keys=frozenset(guard_keys), allowed_hosts=None)(scope, receive, send)
    return bool(passed)


@pytest.mark.parametrize("host", [b"a/health?", b"a/health#", b"a/health?:80", b"/health?"])
async def test_the_host_header_does_not_open_a_path(host: bytes) -> None:
    """Whatever an address that is put together with it would say."""
    assert await let_in({"key"}, "/health", host=host)
    assert not await let_in({"key"}, "/v1/models", host=host)


@pytest.mark.parametrize(("key", "sent"), [("schlüssel", "schlüssel".encode()), ("\udcff", b"\xff"), ("k", b"k")])
async def test_a_key_may_be_any_bytes(key: str, sent: bytes) -> None:
    assert await let_in({key}, "/v1/models", authorization=b"Bearer " + sent)
    assert not await let_in({key}, "/v1/models", authorization=b"Bearer " + sent + b"x")
