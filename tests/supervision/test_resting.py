"""A real daemon that gives its memory back while nobody asks, and a load that hangs."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.daemons import Daemon, Gate, eventually, running
from tests.kits.models import Models
from tests.kits.notify_socket import NotifySocket

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotifySocket]:
    socket = NotifySocket(tmp_path_factory.mktemp("manager"))
    yield socket
    socket.close()


@pytest.fixture(scope="module")
def resting(models: Models, tmp_path_factory: pytest.TempPathFactory, manager: NotifySocket) -> Iterator[Daemon]:
    """Under a stand-in for the service manager, with a drafter, and with nothing to do."""
    settings = {"HOMESPEC_IDLE_UNLOAD_S": "1.5", "NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "2000000"}
    flags = (str(models.letters), "--draft", str(models.letters))
    with running(tmp_path_factory.mktemp("resting"), *flags, environment=settings) as daemon:
        engine_pid = daemon.engine_pid
        eventually(lambda: daemon.health().json()["status"] == "idle", "it rests")
        eventually(lambda: not psutil.pid_exists(engine_pid), "the engine is gone")
        yield daemon


def events(daemon: Daemon) -> list[str]:
    return [event["text"] for event in daemon.status()["events"]]


def answer_of(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["text"]


def test_the_drafter_goes_then_the_target_and_a_request_brings_them_back(
    resting: Daemon, manager: NotifySocket
) -> None:
    daemon = resting
    health = daemon.health()
    assert health.status_code == 200
    assert "the next request loads it" in health.json()["detail"]
    status = daemon.status()
    assert status["engine"]["pid"] is None
    assert status["engine"]["restarts"] == 0
    assert status["engine"]["idle_unloads"] == {"drafter": 1, "target": 1}
    assert [model["residence"] for model in status["models"]] == ["unloaded"]
    told = events(daemon)
    drafter = next(index for index, text in enumerate(told) if "given up: nobody has asked" in text)
    target = next(index for index, text in enumerate(told) if "unloaded: nobody has asked" in text)
    assert drafter < target
    assert httpx.get(f"{daemon.url}/api/ps").json() == {"models": []}
    manager.forget()
    manager.wait_for("WATCHDOG")  # resting is no fault

    def ask(number: int) -> Any:
        body = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 3}
        if number % 2:
            return daemon.post("/v1/completions", {"prompt": "a", "max_tokens": 3, "temperature": 0})
        return daemon.post("/v1/chat/completions", body)

    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(ask, range(6)))
    assert [answer_of(response) for response in responses[1::2]] == ["bcd"] * 3
    assert all(response.status_code == 200 for response in responses)
    metrics = daemon.metrics()
    assert 'homespec_engine_starts_total{cause="demand"} 1.0' in metrics
    assert 'homespec_idle_unloads_total{model="target"} ' in metrics
    manager.forget()
    eventually(lambda: daemon.health().json()["status"] == "idle", "it rests again")
    daemon.signal(signal.SIGHUP)
    manager.wait_for("READY")  # a reload is over, although nothing is loaded
    assert daemon.status()["engine"]["pid"] is None


def test_ollama_s_clients_say_how_long_a_model_stays(resting: Daemon) -> None:
    daemon = resting
    for for_ever in (-1, 1e30):
        loads = daemon.post("/api/generate", {"model": "letters", "keep_alive": for_ever})
        assert loads.json()["done_reason"] == "load"
        [card] = httpx.get(f"{daemon.url}/api/ps").json()["models"]
        assert card["expires_at"].startswith("9999")
    at_once = daemon.post("/api/generate", {"model": "letters", "keep_alive": 0})
    assert at_once.json()["done_reason"] == "unload"
    eventually(lambda: daemon.status()["engine"]["pid"] is None, "it is unloaded")
    wrong = daemon.post("/api/chat", {"messages": [], "keep_alive": "soon"})
    assert wrong.status_code == 400
    assert wrong.json()["param"] == "keep_alive"


def test_a_load_that_hangs_is_noticed_and_tried_again(models: Models, tmp_path: Path) -> None:
    gate, config = Gate(tmp_path), tmp_path / "homespec.toml"
    config.write_text(f'model = "{models.letters}"\nload_timeout_s = 0.5\n')
    with running(tmp_path, "--config", str(config), environment=gate.environment, wait=False) as daemon:
        eventually(lambda: daemon.restarts() >= 1, "the hanging engine is killed")
        assert "made no progress loading for 0.5 s (at 0%" in daemon.status()["engine"]["last_exit"]
        config.write_text(f'model = "{models.letters}"\nload_timeout_s = 300\n')
        daemon.signal(signal.SIGHUP)
        eventually(lambda: any("load_timeout_s 0.5" in text for text in events(daemon)), "the limit is taken")
        gate.open()
        daemon.wait_ready()
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"
