"""Who waits for how long. The engine is held still, so that everything waits, and let go."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.daemons import GREEDY, Daemon, eventually, running
from tests.kits.models import Models

pytestmark = [pytest.mark.process, pytest.mark.real]

SHORT = {"prompt": "a", "max_tokens": 3, **GREEDY}


@contextmanager
def held_still(daemon: Daemon) -> Iterator[None]:
    engine = psutil.Process(daemon.engine_pid)
    engine.suspend()
    try:
        yield
    finally:
        engine.resume()


def test_clients_are_served_in_turn(models: Models, tmp_path: Path) -> None:
    """One that floods the server shuts itself out; another one is let in, and served before most of the first's."""
    with (
        running(tmp_path, str(models.letters), "--slots", "1", environment={"HOMESPEC_MAX_QUEUE": "4"}) as daemon,
        ThreadPoolExecutor(8) as pool,
    ):
        finished: list[str] = []

        def ask(agent: str) -> int:
            status = daemon.post("/v1/completions", SHORT, headers={"User-Agent": agent}).status_code
            if status == 200:
                finished.append(agent)
            return status

        with held_still(daemon):
            flood = [pool.submit(ask, "flood") for _ in range(7)]
            eventually(lambda: sum(each.done() for each in flood) == 2, "two are too many")
            other = pool.submit(ask, "other")
            eventually(lambda: sum(each.done() for each in flood) == 3, "one of the flood makes room")
            status = daemon.status()
            assert status["queue"] == {"running": 1, "waiting": 4, "limit": 4}
            assert "homespec_requests_waiting 4.0" in daemon.metrics()
        assert other.result() == 200
        assert sorted(each.result() for each in flood) == [200, 200, 200, 200, 503, 503, 503]
        assert finished.index("other") <= 3
        eventually(daemon.is_idle, "nothing is left")


def test_nobody_waits_for_ever(models: Models, tmp_path: Path) -> None:
    settings = {"HOMESPEC_QUEUE_TIMEOUT_S": "0.5"}
    with (
        running(tmp_path, str(models.letters), "--slots", "1", environment=settings) as daemon,
        ThreadPoolExecutor(3) as pool,
    ):
        with held_still(daemon):
            asked = [pool.submit(daemon.post, "/v1/completions", SHORT) for _ in range(3)]
            eventually(lambda: sum(each.done() for each in asked) == 2, "those that wait are refused")
            # What needs no slot does not wait for one.
            assert daemon.health().status_code == 200
        responses = [each.result() for each in asked]
        assert sorted(response.status_code for response in responses) == [200, 503, 503]
        refused = next(response for response in responses if response.status_code == 503)
        assert refused.json()["error"]["code"] == "queue_timeout"
        assert int(refused.headers["retry-after"]) > 0
