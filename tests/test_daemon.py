"""The daemon's life: how it starts, how it ends, and that nothing is left of it."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from homespec.errors import ExitCode
from tests.daemons import GREEDY, Daemon, Gate, eventually, has_ipv6_loopback, in_processes, running, session_members
from tests.kits.models import Models

pytestmark = pytest.mark.process

STOP_LIMIT_S = 5.0
ORPHAN_LIMIT_S = 2.0
ROOMY = ("--ctx", "30000")
ENDLESS = {"prompt": "a", "max_tokens": 29_000, **GREEDY}


def ends_in_order(daemon: Daemon, number: signal.Signals) -> None:
    """One signal: exit code 0 in time, no process left, nothing on stdout, no traceback."""
    started = time.monotonic()
    daemon.signal(number)
    assert daemon.wait_exit() == ExitCode.OK
    assert time.monotonic() - started < STOP_LIMIT_S
    ended_cleanly(daemon)


def ended_cleanly(daemon: Daemon) -> None:
    assert daemon.survivors() == []
    assert daemon.stdout() == b""
    assert "Traceback" not in daemon.log()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_streams_with_an_event(models: Models, tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, str(models.letters), *ROOMY) as daemon, daemon.stream("/v1/completions", ENDLESS) as stream:
        stream.first_text()
        ends_in_order(daemon, number)
        *_, last = stream.events()
    assert last["error"]["type"] == "server_error"
    assert last["error"]["code"] == "shutting_down"


def test_a_signal_ends_an_idle_daemon_and_its_status_stream(models: Models, tmp_path: Path) -> None:
    with (
        running(tmp_path, str(models.letters)) as daemon,
        httpx.stream("GET", f"{daemon.url}/events", timeout=30) as events,
    ):
        lines = events.iter_lines()
        next(lines)
        ends_in_order(daemon, signal.SIGTERM)
        last = [line for line in lines if line.startswith("data: ")][-1]
    assert '"phase":"stopping"' in last


@pytest.mark.real
def test_a_signal_ends_a_long_prompt(tmp_path: Path) -> None:
    body = {"prompt": [19556, 905] * 3500, "max_tokens": 1}
    with running(tmp_path, "--demo") as daemon, ThreadPoolExecutor() as pool:
        whole = pool.submit(daemon.post, "/v1/completions", body)
        eventually(lambda: daemon.status()["requests"], "the prompt is in the engine", 60)
        request = daemon.status()["requests"][0]
        assert request["num_prefilled_tokens"] < request["num_prompt_tokens"] == 7000
        ends_in_order(daemon, signal.SIGTERM)
        assert whole.result().status_code == 503
        assert whole.result().json()["error"]["code"] == "shutting_down"
        assert int(whole.result().headers["retry-after"]) > 0


def test_a_signal_ends_a_daemon_that_loads(models: Models, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with running(tmp_path, str(models.letters), environment=gate.environment, wait=False) as daemon:
        assert daemon.health().json()["status"] == "loading"
        assert psutil.pid_exists(daemon.engine_pid)
        ends_in_order(daemon, signal.SIGTERM)


def test_an_engine_that_does_not_listen_is_made_to_end(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters)) as daemon:
        psutil.Process(daemon.engine_pid).suspend()
        ends_in_order(daemon, signal.SIGTERM)


def test_an_engine_that_even_a_kill_does_not_end_does_not_hold_the_daemon(models: Models, tmp_path: Path) -> None:
    """As inside a wedged driver."""
    environment = in_processes(tmp_path, "os.killpg = lambda *_: None", "serve")
    with running(tmp_path, str(models.letters), environment=environment) as daemon:
        psutil.Process(daemon.engine_pid).suspend()
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit() == ExitCode.OK
        assert time.monotonic() - started < STOP_LIMIT_S
        assert "Traceback" not in daemon.log()


def test_a_second_signal_forces(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters)) as daemon:
        psutil.Process(daemon.engine_pid).suspend()
        daemon.signal(signal.SIGINT)
        eventually(lambda: "once more to force" in daemon.log(), "the first signal is taken")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit() == 128 + signal.SIGTERM
        eventually(lambda: not daemon.survivors(), "everything is gone")


def test_a_request_is_told_when_its_model_is_gone_for_good(models: Models, tmp_path: Path) -> None:
    """The engine dies, and the file is no model any more."""
    path = tmp_path / "letters.gguf"
    path.write_bytes(models.letters.read_bytes())
    with running(tmp_path, str(path)) as daemon, ThreadPoolExecutor() as pool:
        engine = psutil.Process(daemon.engine_pid)
        engine.suspend()
        path.unlink()
        path.write_bytes(b"no model")
        asking = pool.submit(daemon.post, "/v1/completions", {"prompt": "a", "max_tokens": 1})
        eventually(lambda: daemon.status()["queue"]["running"], "the request is with the engine")
        engine.kill()
        response = asking.result()
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "load_failed"
        assert daemon.wait_exit() == ExitCode.MODEL
        assert "Traceback" not in daemon.log()


@pytest.mark.parametrize("busy", [False, True])
def test_nothing_outlives_a_killed_daemon(models: Models, tmp_path: Path, busy: bool) -> None:
    with running(tmp_path, str(models.letters), *ROOMY) as daemon:
        engine_pid = daemon.engine_pid
        if busy:
            stream = daemon.stream("/v1/completions", ENDLESS)
            stream.first_text()
        daemon.signal(signal.SIGKILL)
        daemon.wait_exit()
        eventually(lambda: not daemon.survivors(), "the engine dies with its daemon", ORPHAN_LIMIT_S)
        eventually(lambda: not session_members(engine_pid), "its session is empty", ORPHAN_LIMIT_S)
        if busy:
            stream.drop()


def test_nothing_outlives_a_daemon_that_is_killed_while_it_loads(models: Models, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    with running(tmp_path, str(models.letters), environment=gate.environment, wait=False) as daemon:
        eventually(lambda: daemon.status()["engine"]["pid"], "the engine is there")
        daemon.signal(signal.SIGKILL)
        daemon.wait_exit()
        gate.open()
        eventually(lambda: not daemon.survivors(), "the engine finds its daemon gone")


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")
def test_both_loopbacks_answer(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters), wait=False) as daemon:
        port = daemon.url.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]", "localhost"):
            assert httpx.get(f"http://{host}:{port}/health").json()["model"] == "letters"


def test_a_restart_takes_the_same_port_at_once(models: Models, tmp_path: Path) -> None:
    with running(tmp_path, str(models.letters), wait=False) as first, httpx.Client() as keeping_open:
        port = int(first.url.rpartition(":")[2])
        assert keeping_open.get(f"{first.url}/health").json()["model"] == "letters"
        first.signal(signal.SIGTERM)
        first.wait_exit()
    with running(tmp_path, str(models.letters), port=port, wait=False) as second:
        assert second.url == first.url


@pytest.mark.parametrize(
    "name",
    [
        "with space $HOME;touch pwned 'and' \" `id`",
        "-dash\nand a second line ünï-日本-🚗",
    ],
)
def test_any_file_name_can_be_served(models: Models, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    path = folder / f"{name}.gguf"
    path.symlink_to(models.letters)
    with running(tmp_path, str(path)) as daemon:
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"
        [card] = httpx.get(f"{daemon.url}/v1/models").json()["data"]
        answer = daemon.complete("a", 1, model=card["id"])
        assert answer["model"] == card["id"]
        assert daemon.status()["phase"] == "ready"
        assert "homespec_phase" in daemon.metrics()
        assert "Traceback" not in daemon.log()
    assert not list(tmp_path.rglob("pwned"))
