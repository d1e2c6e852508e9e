"""Engines that die, hang or never start, under a real daemon."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from homespec.errors import ExitCode
from tests.daemons import GREEDY, Daemon, Gate, eventually, in_the_engine, running
from tests.kits.models import Models

pytestmark = pytest.mark.process

ENDLESS = {"prompt": "Once upon a time", "max_tokens": 5000, "ignore_eos": True, **GREEDY}
SHORT = {"prompt": "One, two, three, four,", "max_tokens": 5, **GREEDY}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Its engines are killed four times; a fifth death in a row would be one short of giving up."""
    with running(tmp_path_factory.mktemp("daemon"), "--demo", "--threads", "1") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def golden(daemon: Daemon) -> str:
    return daemon.golden()


@pytest.fixture
def posting() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def kill_engine(daemon: Daemon) -> int:
    """SIGKILL the engine; how many restarts will have been counted when it is back."""
    restarts = daemon.restarts()
    psutil.Process(daemon.engine_pid).kill()
    return restarts + 1


def post_to_a_frozen_engine(daemon: Daemon, pool: ThreadPoolExecutor, body: Any) -> Future[httpx.Response]:
    """The daemon has the request and the engine cannot have answered any of it."""
    psutil.Process(daemon.engine_pid).suspend()
    future = pool.submit(daemon.post, "/v1/completions", body)
    eventually(lambda: daemon.status()["queue"]["running"], "the daemon takes the request on")
    return future


def counters(daemon: Daemon) -> dict[str, float]:
    lines = re.findall(r"^(\S+_total(?:\{.*\})?) (\S+)$", daemon.metrics(), re.MULTILINE)
    return {name: float(value) for name, value in lines}


@pytest.mark.real
def test_a_stream_ends_with_an_error_when_the_engine_is_killed(daemon: Daemon, golden: str) -> None:
    with daemon.stream("/v1/completions", ENDLESS) as stream:
        stream.first_text()
        expected_restarts = kill_engine(daemon)
        *_, last = stream.events()

    assert last["error"]["type"] == "server_error"
    assert last["error"]["code"] == "engine_died"
    assert "SIGKILL" in last["error"]["message"]
    assert daemon.golden() == golden
    status = daemon.status()
    assert status["engine"]["restarts"] == expected_restarts
    assert "SIGKILL" in status["engine"]["last_exit"]
    assert any("SIGKILL" in event["text"] for event in status["events"])
    assert daemon.health().status_code == 200


@pytest.mark.real
def test_a_request_that_has_sent_nothing_is_replayed(daemon: Daemon, golden: str, posting: ThreadPoolExecutor) -> None:
    before = counters(daemon)
    future = post_to_a_frozen_engine(daemon, posting, SHORT)
    expected_restarts = kill_engine(daemon)

    response = future.result()

    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["text"] == golden
    assert daemon.restarts() == expected_restarts
    output = "homespec_output_tokens_total"
    eventually(lambda: counters(daemon)[output] > before[output], "the answer is counted")
    after = counters(daemon)
    assert before.keys() <= after.keys()
    assert all(after[name] >= value for name, value in before.items())
    assert after["homespec_engine_restarts_total"] == before["homespec_engine_restarts_total"] + 1


@pytest.mark.real
def test_a_request_is_replayed_once(daemon: Daemon, golden: str, posting: ThreadPoolExecutor) -> None:
    future = post_to_a_frozen_engine(daemon, posting, ENDLESS)
    kill_engine(daemon)
    eventually(
        lambda: [each for each in daemon.status()["requests"] if each["phase"] != "waiting"], "it runs again", 60
    )
    kill_engine(daemon)

    response = future.result()

    assert response.status_code == 500
    assert response.json()["error"]["code"] == "engine_died"
    assert daemon.golden() == golden
    eventually(daemon.is_idle, "nothing is left over")


@pytest.fixture
def stalling(models: Models, tmp_path: Path) -> Iterator[Daemon]:
    flags = (str(models.letters), "--ctx", "30000")
    with running(tmp_path, *flags, environment={"HOMESPEC_STALL_TIMEOUT_S": "2"}) as daemon:
        yield daemon


def test_time_in_which_all_was_stopped_is_not_the_engines(stalling: Daemon) -> None:
    """As `docker pause` and a debugger do; the answer goes on where it was."""
    with stalling.stream("/v1/completions", {"prompt": "a", "max_tokens": 2000, **GREEDY}) as stream:
        stream.first_text()
        daemon, engine = psutil.Process(stalling.process.pid), psutil.Process(stalling.engine_pid)
        for process in (daemon, engine):
            process.suspend()
        time.sleep(4)  # twice the limit
        for process in (daemon, engine):
            process.resume()
        *_, last = stream.events()
    assert last["choices"][0]["finish_reason"] == "length"
    assert stalling.restarts() == 0


def test_a_stalled_engine_is_killed_and_started_again(stalling: Daemon) -> None:
    body = {"prompt": "a", "max_tokens": 29_000, **GREEDY}
    with stalling.stream("/v1/completions", body) as stream:
        stream.first_text()
        engine_pid = stalling.engine_pid
        psutil.Process(engine_pid).suspend()
        # None of these waits for the engine.
        assert stalling.status()["engine"]["pid"] == engine_pid
        assert "homespec_phase" in stalling.metrics()
        assert stalling.health().status_code in (200, 503)
        *_, last = stream.events()

    assert "stalled for 2 s" in last["error"]["message"]
    assert not psutil.pid_exists(engine_pid)
    assert stalling.complete("a", 3)["choices"][0]["text"] == "bcd"
    engine = stalling.status()["engine"]
    assert engine["restarts"] == 1
    assert engine["last_exit"] == "stalled for 2 s"


def test_a_frozen_idle_engine_is_noticed_too(stalling: Daemon) -> None:
    psutil.Process(stalling.engine_pid).suspend()
    eventually(lambda: stalling.restarts() == 1, "the engine is replaced")
    assert stalling.complete("a", 3)["choices"][0]["text"] == "bcd"


def test_an_engine_that_dies_while_loading_is_started_again(models: Models, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with running(tmp_path, str(models.letters), environment=gate.environment, wait=False) as daemon:
        psutil.Process(daemon.engine_pid).kill()
        eventually(lambda: daemon.restarts() == 1, "the death is noticed")
        gate.open()
        daemon.wait_ready()
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"


def test_an_engine_that_never_starts_is_given_up(models: Models, tmp_path: Path) -> None:
    environment = in_the_engine(tmp_path, "os._exit(42)")
    with running(tmp_path, str(models.letters), environment=environment, wait=False) as daemon:
        eventually(lambda: daemon.restarts() >= 1, "the engine has died once")
        health = daemon.health()
        assert health.status_code == 503
        assert health.json()["status"] == "restarting"
        assert "exited with code 42" in health.json()["detail"]
        waiting = daemon.post("/v1/completions", {"prompt": "a"})
        assert daemon.wait_exit(60) == ExitCode.ENGINE_FAILED

        assert waiting.status_code == 503
        assert waiting.json()["error"]["code"] == "engine_failed"
        assert int(waiting.headers["retry-after"]) > 0
        assert daemon.survivors() == []
        last_line = daemon.log().splitlines()[-1]
        assert re.fullmatch(r"homespec: the engine died 6 times in a row, last: exited with code 42; .*", last_line)
        assert "Traceback" not in daemon.log()


def test_a_signal_ends_a_daemon_whose_engine_never_starts(models: Models, tmp_path: Path) -> None:
    environment = in_the_engine(tmp_path, "os._exit(42)")
    with running(tmp_path, str(models.letters), environment=environment, wait=False) as daemon:
        eventually(lambda: daemon.restarts() >= 2, "the daemon waits before it tries again")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit() == ExitCode.OK
        assert daemon.survivors() == []


def test_a_drafter_that_was_new_when_the_engine_died_is_suspected(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters), "--draft", str(models.letters)) as daemon:

        def drafter() -> Any:
            return daemon.health().json()["drafters"].get("draft", {"state": None})

        eventually(lambda: drafter()["state"] == "ready", "the drafter is loaded")
        psutil.Process(daemon.engine_pid).kill()
        eventually(lambda: daemon.restarts() == 1, "the death is noticed")
        daemon.wait_ready()
        assert drafter()["state"] == "off"
        assert drafter()["reason"].startswith("crashed: ")
        assert "SIGKILL" in drafter()["reason"]
        assert any("quarantined" in event["text"] for event in daemon.status()["events"])
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"

        # Naming it is asking to try again.
        assert daemon.post("/admin/drafter", {"mode": "draft"}).status_code == 200
        eventually(lambda: drafter()["state"] == "ready", "the drafter is loaded again")


def test_a_loaded_drafter_is_given_up_for_a_kill_that_nobody_here_sent(models: Models, tmp_path: Path) -> None:
    """That is how the out-of-memory killer ends an engine, however long the drafter has been good."""
    with running(tmp_path, str(models.letters), "--draft", str(models.letters), "--ctx", "1024") as daemon:

        def drafter() -> Any:
            return daemon.health().json()["drafters"].get("draft", {"state": None})

        eventually(lambda: drafter()["state"] == "ready", "the drafter is loaded")
        answer = daemon.complete("a", 200, speculative={"mode": "draft"})
        assert answer["speculative"]["drafters"]["draft"] >= 16
        daemon.post("/admin/drafter", {"mode": "draft"})
        eventually(lambda: daemon.status()["speculation"]["mode"] == "draft", "it is named")
        psutil.Process(daemon.engine_pid).kill()
        eventually(lambda: daemon.restarts() == 1, "the death is noticed")
        daemon.wait_ready()
        assert drafter()["state"] == "off"  # although it is the mode
        assert "perhaps for want of memory" in drafter()["reason"]
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"


def test_the_engine_has_a_session_of_its_own(models: Models, tmp_path: Path) -> None:
    """Ctrl-C in a terminal reaches the daemon only, which then ends the engine in order."""
    with running(tmp_path, str(models.letters)) as daemon:
        engine_pid = daemon.engine_pid
        stat = Path(f"/proc/{engine_pid}/stat").read_text().rpartition(")")[2].split()
        process_group, session = int(stat[2]), int(stat[3])
        assert process_group == session == engine_pid
        assert psutil.Process(engine_pid).ppid() == daemon.process.pid
        ours, theirs = (int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in (daemon.process.pid, engine_pid))
        assert theirs > ours  # the out-of-memory killer takes the engine
        daemon.signal(signal.SIGINT)
        assert daemon.wait_exit() == ExitCode.OK
        assert daemon.survivors() == []
