"""Clients that leave, requests that are cancelled, and more clients than there is room for."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import psutil
import pytest

from tests.daemons import GREEDY, Daemon, eventually, running

pytestmark = [pytest.mark.process, pytest.mark.real]

FREE_LIMIT_S = 5.0
ENDLESS = {"prompt": "Once upon a time", "max_tokens": 5000, "ignore_eos": True, **GREEDY}
SHORT = {"prompt": "One, two, three, four,", "max_tokens": 3, **GREEDY}


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """One request runs, one waits."""
    flags = ("--demo", "--slots", "1", "--threads", "1")
    with running(tmp_path_factory.mktemp("narrow"), *flags, environment={"HOMESPEC_MAX_QUEUE": "1"}) as daemon:
        yield daemon


@pytest.fixture(autouse=True)
def nothing_is_left(narrow: Daemon) -> Iterator[None]:
    expected = narrow.complete("One, two, three, four,", 3)["choices"][0]["text"]
    yield
    eventually(narrow.is_idle, "no request is left", FREE_LIMIT_S)
    assert narrow.complete("One, two, three, four,", 3)["choices"][0]["text"] == expected


def in_the_engine(daemon: Daemon) -> bool:
    return bool(daemon.status()["requests"])


def raw_post(daemon: Daemon, body: dict[str, Any]) -> socket.socket:
    """A POST over a bare socket."""
    host, _, port = daemon.url.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    content = json.dumps(body).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    connection.sendall(head.encode() + content)
    return connection


def test_a_dropped_stream_frees_its_slot(narrow: Daemon) -> None:
    with narrow.stream("/v1/completions", ENDLESS) as stream:
        stream.first_text()
        eventually(lambda: in_the_engine(narrow), "the request is seen")
    eventually(narrow.is_idle, "the slot is free", FREE_LIMIT_S)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("leave", ["close", "reset", "half-close"])
def test_every_way_to_leave_is_the_same(narrow: Daemon, leave: str, stream: bool) -> None:
    with raw_post(narrow, {**ENDLESS, "stream": stream}) as connection:
        eventually(lambda: in_the_engine(narrow), "the request runs")
        if leave == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if leave == "half-close":
            connection.shutdown(socket.SHUT_WR)
        else:
            connection.close()
        eventually(narrow.is_idle, "the slot is free", FREE_LIMIT_S)


def test_fifty_interruptions_leave_nothing_behind(narrow: Daemon) -> None:
    """In the middle of an answer, and before anything was said."""
    processes = [psutil.Process(pid) for pid in (narrow.process.pid, narrow.engine_pid)]
    # From its first look on the daemon keeps the model's file open.
    eventually(lambda: narrow.status()["memory"]["monitor"]["resident_share"] is not None, "the model is watched")
    before = [process.num_fds() for process in processes]

    def are_back() -> bool:
        return all(process.num_fds() <= num for process, num in zip(processes, before, strict=True))

    for _ in range(25):
        with narrow.stream("/v1/completions", ENDLESS) as stream:
            stream.first_text()
        raw_post(narrow, ENDLESS).close()
    eventually(lambda: len(narrow.status()["requests"]) <= 2, "they go as they come", FREE_LIMIT_S)
    eventually(narrow.is_idle, "the slot is free", FREE_LIMIT_S)
    eventually(are_back, "no connection is left", FREE_LIMIT_S)


def phases(daemon: Daemon) -> list[str]:
    return [request["phase"] for request in daemon.status()["requests"]]


def test_a_long_prompt_is_cancelled_between_its_chunks(narrow: Daemon) -> None:
    with raw_post(narrow, {"prompt": [19556, 905] * 3500, "max_tokens": 1}):
        eventually(lambda: phases(narrow) == ["prefill"], "the prompt is being read")
    computed = narrow.status()["counters"]["prompt_tokens"]
    eventually(narrow.is_idle, "the slot is free", 20)
    assert narrow.status()["counters"]["prompt_tokens"] < computed + 7000 / 2


def test_a_request_that_waits_can_leave_too(narrow: Daemon) -> None:
    with narrow.stream("/v1/completions", ENDLESS) as running_stream:
        running_stream.first_text()
        with raw_post(narrow, SHORT):
            eventually(lambda: narrow.status()["queue"]["waiting"] == 1, "the second waits")
        eventually(lambda: narrow.status()["queue"]["waiting"] == 0, "the second is gone", FREE_LIMIT_S)
        assert narrow.status()["queue"]["running"] == 1


def test_the_queue_is_bounded(narrow: Daemon) -> None:
    with narrow.stream("/v1/completions", ENDLESS) as first, ThreadPoolExecutor(5) as pool:
        first.first_text()
        second = pool.submit(narrow.post, "/v1/completions", SHORT)
        eventually(lambda: narrow.status()["queue"]["waiting"] == 1, "the second waits")
        assert "homespec_requests_waiting 1.0" in narrow.metrics()

        others = list(pool.map(lambda _: narrow.post("/v1/completions", SHORT), range(4)))
        streamed = narrow.post("/v1/completions", {**SHORT, "stream": True})

        for response in (*others, streamed):
            assert response.status_code == 503
            assert int(response.headers["retry-after"]) > 0
            error = response.json()["error"]
            assert error["code"] == "queue_full"
            assert error["type"] == "server_error"
            assert "1 slots" in error["message"]
            assert "1 waiting" in error["message"]
        assert narrow.health().status_code == 200
        first.drop()
        assert second.result().status_code == 200
        assert second.result().json()["usage"]["completion_tokens"] == 3


def test_the_queue_counts_the_choices_of_a_request(narrow: Daemon) -> None:
    """All of them or none: half of a refused request must not stay behind."""
    response = narrow.post("/v1/completions", {**SHORT, "n": 3})
    assert response.status_code == 503
    eventually(narrow.is_idle, "nothing is left over")
    both = narrow.post("/v1/completions", {**SHORT, "n": 2})
    assert [choice["index"] for choice in both.json()["choices"]] == [0, 1]


def test_a_connection_without_a_request_disturbs_nobody(narrow: Daemon) -> None:
    host, _, port = narrow.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as silent, socket.create_connection((host, int(port))) as half:
        half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert silent.fileno() >= 0
        assert httpx.get(f"{narrow.url}/health").status_code == 200


def cancel(daemon: Daemon, request_id: str) -> httpx.Response:
    return httpx.delete(f"{daemon.url}/admin/requests/{request_id}", timeout=60)


def request_ids(daemon: Daemon) -> list[str]:
    return [request["id"] for request in daemon.status()["requests"]]


def test_a_cancelled_stream_ends_with_an_error(narrow: Daemon) -> None:
    with narrow.stream("/v1/completions", ENDLESS) as stream:
        stream.first_text()
        [request_id] = eventually(lambda: request_ids(narrow), "the request is seen")
        assert cancel(narrow, request_id).json() == {"id": request_id, "cancelled": 1}
        *_, error, done = stream.data()
    assert json.loads(error)["error"]["code"] == "cancelled"
    assert done == "[DONE]"
    eventually(narrow.is_idle, "the slot is free", FREE_LIMIT_S)
    assert any(request_id in event["text"] for event in narrow.status()["events"])
    assert cancel(narrow, request_id).status_code == 404


def test_a_cancelled_stream_of_ollama_ends_with_a_text(narrow: Daemon) -> None:
    body = {"prompt": "One,", "raw": True, "options": {"num_predict": -1, "temperature": 0}}
    with narrow.stream("/api/generate", body) as stream:
        lines = stream.response.iter_lines()
        next(lines)
        [request_id] = eventually(lambda: request_ids(narrow), "the request is seen")
        cancel(narrow, request_id)
        *_, last = map(json.loads, lines)
    assert isinstance(last["error"], str)
    assert (last["code"], set(last)) == ("cancelled", {"error", "type", "param", "code"})


def test_a_cancelled_answer_is_refused_and_not_sent_again(narrow: Daemon) -> None:
    client = openai.OpenAI(base_url=f"{narrow.url}/v1", api_key="x", max_retries=2, timeout=60)
    body: dict[str, Any] = {
        "model": "default",
        "prompt": ENDLESS["prompt"],
        "max_tokens": 5000,
        "extra_body": {"ignore_eos": True},
    }
    with ThreadPoolExecutor() as pool:
        running = pool.submit(lambda: client.completions.create(**body))
        [first] = eventually(lambda: request_ids(narrow), "the request runs")
        waiting = pool.submit(lambda: client.completions.create(**body))
        [second] = eventually(lambda: [each for each in request_ids(narrow) if each != first], "another one waits")
        assert cancel(narrow, second).status_code == 200
        with pytest.raises(openai.APIStatusError) as refused:
            waiting.result(60)
        assert (refused.value.status_code, refused.value.code) == (499, "cancelled")
        assert request_ids(narrow) == [first]
        assert cancel(narrow, first).status_code == 200
        with pytest.raises(openai.APIStatusError, match="cancelled on the server"):
            running.result(60)


@pytest.mark.parametrize("request_id", ["cmpl", "cmpl-0123456789abcdef01234567", "..", "%00"])
def test_what_is_not_in_flight_cannot_be_cancelled(narrow: Daemon, request_id: str) -> None:
    with narrow.stream("/v1/completions", ENDLESS) as stream:
        stream.first_text()
        running = eventually(lambda: request_ids(narrow), "the request is seen")
        response = cancel(narrow, request_id)
        assert response.status_code in (404, 405)
        assert "error" in response.json()
        assert request_ids(narrow) == running
