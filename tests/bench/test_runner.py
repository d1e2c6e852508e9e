"""What a bench does before it measures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest

from homespec.bench.measure import Endpoint, Sampler
from homespec.bench.runner import WARM_UP, Run, Runner
from homespec.bench.sides import PLAIN, Side
from homespec.client import http
from homespec.client.http import Client
from homespec.status import Phase
from tests.bench.servers import answers
from tests.client.daemon_double import DaemonDouble, Reply, wait_until
from tests.tui.snapshots import plain

LOAD_S = 60.0


@pytest.fixture
def double() -> Iterator[DaemonDouble]:
    with DaemonDouble() as double:
        answers(double)
        yield double


async def test_a_model_that_takes_long_to_load_is_waited_for(
    double: DaemonDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had been unloaded, and the request that has it loaded is answered only when that is done."""
    monkeypatch.setattr(http, "EVENTS_TIMEOUT_S", 1.0)
    tokenized = double.replies["/tokenize"]
    double.replies["/status"] = Reply(200, msgspec.json.encode(replace(plain(), phase=Phase.IDLE)))
    double.replies["/tokenize"] = replace(tokenized, after_s=LOAD_S)
    client, run = Client(double.url), Run()
    endpoint = Endpoint.of_daemon(Side(PLAIN, "off"), client, "run")
    warming = asyncio.create_task(Runner(client, [endpoint], Sampler(8, 0.0, 1), lambda *_: None, run).warm_up())
    await asyncio.to_thread(wait_until, lambda: bool(double.asked("/tokenize")))
    answers(double)  # it is loaded by now
    await warming
    assert len(double.asked("/v1/chat/completions")) == len(WARM_UP)
