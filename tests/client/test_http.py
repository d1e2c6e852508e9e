from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from homespec.client.failures import StreamCutError, UnreachableError, describe
from homespec.client.http import Client, ListedModel
from homespec.errors import ExitCode, RequestError
from tests.client.daemon_double import DaemonDouble, Reply, free_port, sse


async def collect(stream: AsyncIterator[str]) -> list[str]:
    return [data async for data in stream]


async def test_nothing_listens() -> None:
    with pytest.raises(UnreachableError, match="connection refused") as caught:
        await Client(f"http://127.0.0.1:{free_port()}").check()
    assert caught.value.exit_code is ExitCode.UNREACHABLE


@pytest.mark.parametrize("url", ["http://[::1", "http://127.0.0.1:notaport", "ftp://127.0.0.1"])
async def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(UnreachableError):
        await Client(url).check()


async def test_a_bare_host_and_port_will_do(daemon: DaemonDouble) -> None:
    client = Client(f"127.0.0.1:{daemon.port}/")
    await client.check()
    assert client.url == daemon.url


async def test_a_daemon_that_is_not_healthy_is_still_there(daemon: DaemonDouble) -> None:
    daemon.replies["/health"] = Reply(503, b"{}")
    await Client(daemon.url).check()


async def test_a_proxy_is_not_asked_for_the_loopback(daemon: DaemonDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    await Client(daemon.url).check()


async def test_the_key_goes_along_and_its_absence_names_the_variable() -> None:
    with DaemonDouble(key="sésame") as daemon:
        daemon.replies["/admin/drafter"] = Reply(200, b'{"mode":"off"}')
        with pytest.raises(RequestError) as caught:
            await Client(daemon.url).set_drafter("off")
        assert describe(caught.value) == "set HOMESPEC_API_KEY to the daemon's key (a key is needed)"
        daemon._key = "sésame".encode().decode("latin-1")
        assert await Client(daemon.url, "sésame").set_drafter("off") == {"mode": "off"}


async def test_orders_go_to_their_own_places(daemon: DaemonDouble) -> None:
    daemon.replies["/admin/drafter"] = Reply(200, b'{"mode":"auto","reloading":true}')
    daemon.replies["/admin/requests/cmpl-1%2F..%2F2"] = Reply(200, b'{"id":"cmpl-1","cancelled":1}')
    client = Client(daemon.url)
    assert await client.reload_drafter() == {"mode": "auto", "reloading": True}
    assert await client.cancel_request("cmpl-1/../2") == {"id": "cmpl-1", "cancelled": 1}
    orders = [(asked.method, asked.path, asked.body) for asked in daemon.received]
    assert orders == [
        ("POST", "/admin/drafter", b'{"reload":true}'),
        ("DELETE", "/admin/requests/cmpl-1%2F..%2F2", b""),
    ]


async def test_an_error_says_what_the_daemon_said(daemon: DaemonDouble) -> None:
    body = b'{"error":{"message":"unknown drafter x;\\nknown: auto, off","param":"mode","code":null}}'
    daemon.replies["/admin/drafter"] = Reply(400, body)
    with pytest.raises(RequestError, match="unknown drafter x; known: auto, off") as caught:
        await Client(daemon.url).set_drafter("x")
    assert (caught.value.info.status, caught.value.info.param) == (400, "mode")


async def test_an_error_that_is_not_ours(daemon: DaemonDouble) -> None:
    with pytest.raises(RequestError, match="HTTP 404 Not Found"):
        await collect(Client(daemon.url + "/elsewhere").chat({}))


async def test_a_full_queue_says_when_to_come_back(daemon: DaemonDouble) -> None:
    reply = Reply(503, b'{"error":{"message":"64 requests wait already"}}', {"retry-after": "7"})
    daemon.replies["/v1/chat/completions"] = reply
    with pytest.raises(RequestError) as caught:
        await collect(Client(daemon.url).chat({}))
    assert describe(caught.value) == "64 requests wait already (try again in 7 s)"


async def test_a_chat_ends_at_its_end_mark(daemon: DaemonDouble) -> None:
    daemon.chat = [sse("one"), b": ping\n\n", sse("two"), sse("[DONE]"), sse("never")]
    assert await collect(Client(daemon.url).chat({"stream": True})) == ["one", "two"]
    assert daemon.asked("/v1/chat/completions")[0].json == {"stream": True}


async def test_an_error_event_ends_a_chat(daemon: DaemonDouble) -> None:
    daemon.chat = [sse("one"), sse('{"error":{"message":"the engine died","code":500}}'), sse("[DONE]")]
    chunks = Client(daemon.url).chat({})
    assert await anext(chunks) == "one"
    with pytest.raises(RequestError, match="the engine died"):
        await anext(chunks)


@pytest.mark.parametrize(
    ("code", "status"), [("400", 400), ("503", 503), ("7", 500), ('"no_room"', 500), ("null", 500)]
)
async def test_an_error_event_may_say_its_status(daemon: DaemonDouble, code: str, status: int) -> None:
    daemon.chat = [sse(f'{{"error":{{"message":"no","code":{code}}}}}')]
    with pytest.raises(RequestError) as caught:
        await collect(Client(daemon.url).chat({}))
    assert caught.value.info.status == status


async def test_the_word_error_alone_is_not_an_error(daemon: DaemonDouble) -> None:
    daemon.chat = [sse('{"text":"\\"error\\""}'), sse('{"error":null}'), sse("[DONE]")]
    assert len(await collect(Client(daemon.url).chat({}))) == 2


async def test_an_answer_without_its_end_mark_is_cut(daemon: DaemonDouble) -> None:
    daemon.chat = [sse("one")]
    with pytest.raises(StreamCutError, match="ended before its end mark"):
        await collect(Client(daemon.url).chat({}))


async def test_an_answer_that_is_dropped_is_cut(daemon: DaemonDouble) -> None:
    daemon.chat = [sse("one")]
    daemon.chat_breaks = True
    with pytest.raises(StreamCutError, match="the connection closed early"):
        await collect(Client(daemon.url).chat({}))


async def test_tokens_are_counted_by_the_daemon(daemon: DaemonDouble) -> None:
    daemon.replies["/tokenize"] = Reply(200, b'{"tokens":[5,6,7]}')
    assert await Client(daemon.url).count_tokens("a text") == 3
    assert daemon.asked("/tokenize")[0].json == {"content": "a text"}


@pytest.mark.parametrize(
    ("body", "models"),
    [
        (
            b'{"data":[{"id":"big","x":1,"owned_by":"vllm"},{"id":"small"}]}',
            [ListedModel("big", "vllm"), ListedModel("small")],
        ),
        (b'{"data":[]}', []),
    ],
)
async def test_the_models_of_any_server(daemon: DaemonDouble, body: bytes, models: list[ListedModel]) -> None:
    daemon.replies["/v1/models"] = Reply(200, body)
    assert await Client(daemon.url).models() == models


async def test_an_answer_of_another_make_is_an_error_of_ours(daemon: DaemonDouble) -> None:
    client = Client(daemon.url)
    for body in (b"hello", b"[]", b'{"tokens":5}', b"\xff"):
        daemon.replies["/tokenize"] = Reply(200, body)
        with pytest.raises(StreamCutError, match="the tokens cannot be read"):
            await client.count_tokens("a text")
    for body in (b"hello", b"[]", b"\xff"):
        daemon.replies["/v1/chat/completions"] = Reply(200, body)
        with pytest.raises(StreamCutError, match="the answer cannot be read"):
            await client.complete({})


async def test_a_list_of_models_that_is_none(daemon: DaemonDouble) -> None:
    daemon.replies["/v1/models"] = Reply(200, b"hello")
    with pytest.raises(StreamCutError, match="list of models"):
        await Client(daemon.url).models()
