"""Nothing ends the watch but the end of the daemon."""

from __future__ import annotations

import asyncio

import pytest

from homespec.frames import EngineSettings, Refused, Tokenize
from homespec.supervision import watch
from homespec.supervision.life import Life
from homespec.supervision.plan import Plan
from homespec.supervision.requests import Requests
from homespec.supervision.state import State
from homespec.supervision.watch import Watch
from tests.kits.limits import limits


async def test_a_fault_in_one_look_does_not_keep_it_from_the_next(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan, state, bounds = Plan(EngineSettings("m.gguf", "m")), State(), limits(queue_timeout_s=0.0)
    requests = Requests(bounds, slots=1)
    watching = Watch(Life(plan, state, requests, bounds), state, requests)
    monkeypatch.setattr(watch, "INTERVAL_S", 0.01)
    drop_overdue, faults = requests.drop_overdue, [KeyError("odd")]

    def fail_once(now: float) -> None:
        if faults:
            raise faults.pop()
        drop_overdue(now)

    monkeypatch.setattr(requests, "drop_overdue", fail_once)
    job = requests.take(Tokenize("r", "text"), plan, client="")
    task = asyncio.create_task(watching.run())
    answer = await job.next()
    task.cancel()
    assert isinstance(answer, Refused)
    assert answer.error.code == "queue_timeout"
    assert [record.getMessage() for record in caplog.records] == ["watching over the engine failed"]
