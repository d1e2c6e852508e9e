"""Many clients at once: each gets what it would have got alone, and the pages about the daemon go on answering."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.daemons import GREEDY, Daemon, eventually, running, text_of

pytestmark = [pytest.mark.process, pytest.mark.real]

WORDS = ("maple", "copper", "violet", "harbor", "lantern", "meadow", "silver", "thunder")
"""Each follows itself by a wide margin: where its cells lie in the shared KV cache decides the last bits of a sum, and
these must not decide a token."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A slot for each word."""
    flags = ("--demo", "--ctx", "2048", "--slots", str(len(WORDS)), "--threads", "1")
    with running(tmp_path_factory.mktemp("wide"), *flags) as daemon:
        yield daemon


def body(word: str) -> dict[str, Any]:
    return {"prompt": f"{word}, " * 8 + f"{word},", "max_tokens": 8, **GREEDY}


def streamed(daemon: Daemon, word: str) -> str:
    with daemon.stream("/v1/completions", body(word)) as stream:
        return "".join(text_of(event) for event in stream.events())


def test_eight_streams_do_not_mix(wide: Daemon) -> None:
    alone = {word: wide.post("/v1/completions", body(word)).json()["choices"][0]["text"] for word in WORDS}
    assert alone == {word: f" {word}," * 4 for word in WORDS}
    with ThreadPoolExecutor(len(WORDS)) as pool:
        together = dict(zip(WORDS, pool.map(lambda word: streamed(wide, word), WORDS), strict=True))
    assert together == alone
    eventually(wide.is_idle, "all slots are free")


def test_all_pages_answer_while_every_slot_is_taken(wide: Daemon) -> None:
    endless = {"prompt": "Once upon a time", "max_tokens": 1000, "ignore_eos": True, **GREEDY}
    with ThreadPoolExecutor(len(WORDS)) as pool:
        streams = list(pool.map(lambda _: wide.stream("/v1/completions", endless), WORDS))
    try:
        for stream in streams:
            stream.first_text()
        assert wide.health().status_code == 200
        requests = eventually(lambda: all_requests(wide), "all are seen")
        assert len({request["slot"] for request in requests}) == len(WORDS)
        assert wide.status()["queue"] == {"running": len(WORDS), "waiting": 0, "limit": 32}
        assert f"homespec_requests_running {len(WORDS)}.0" in wide.metrics()
    finally:
        for stream in streams:
            stream.drop()
    eventually(wide.is_idle, "all slots are free")


def all_requests(daemon: Daemon) -> list[Any] | None:
    requests: list[Any] = daemon.status()["requests"]
    return requests if len(requests) == len(WORDS) else None
