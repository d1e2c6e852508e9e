"""A real daemon under a stand-in for the service manager: one life from start to stop, reloads included."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from homespec.errors import ExitCode
from tests.daemons import GREEDY, Daemon, Gate, eventually, in_the_engine, run_serve, running
from tests.kits.models import Models
from tests.kits.notify_socket import NotifySocket

pytestmark = pytest.mark.process


@pytest.fixture
def config(models: Models, tmp_path: Path) -> Path:
    path = tmp_path / "homespec.toml"
    write(path, models.letters)
    return path


def write(path: Path, model: Path, **values: int) -> None:
    lines = [f'model = "{model}"', *(f"{key} = {value}" for key, value in values.items())]
    path.write_text("\n".join(lines))


@pytest.fixture
def daemon(config: Path, tmp_path: Path, manager_socket: NotifySocket) -> Iterator[Daemon]:
    environment = {"NOTIFY_SOCKET": manager_socket.address, "WATCHDOG_USEC": "2000000", "HOMESPEC_DRAFT": "off"}
    with running(tmp_path, "--config", str(config), environment=environment) as daemon:
        manager_socket.wait_for("READY")  # of the start: what is waited for later is another one
        yield daemon


def reload(daemon: Daemon, manager_socket: NotifySocket) -> str:
    """SIGHUP, until the manager hears that it is over; what the daemon says about it."""
    manager_socket.forget()
    daemon.signal(signal.SIGHUP)
    manager_socket.wait_for("RELOADING")
    manager_socket.wait_for("READY")
    texts = [event["text"] for event in daemon.status()["events"] if event["kind"] == "daemon"]
    return str(texts[-1])


def test_ready_comes_after_the_model(models: Models, tmp_path: Path, manager_socket: NotifySocket) -> None:
    gate = Gate(tmp_path)
    environment = {**gate.environment, "NOTIFY_SOCKET": manager_socket.address, "WATCHDOG_USEC": "2000000"}
    with running(tmp_path, str(models.letters), environment=environment, wait=False) as daemon:
        manager_socket.wait_for("EXTEND_TIMEOUT_USEC")
        assert daemon.health().status_code == 503
        assert not manager_socket.has("READY")
        gate.open()
        manager_socket.wait_for("READY")
        assert daemon.health().status_code == 200
        manager_socket.wait_for("WATCHDOG")
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit() == ExitCode.OK
    assert manager_socket.has("STOPPING", "1")
    assert daemon.survivors() == []


def test_reloads(daemon: Daemon, models: Models, config: Path, manager_socket: NotifySocket) -> None:
    engine_pid = daemon.engine_pid
    assert "nothing changed" in reload(daemon, manager_socket)

    write(config, models.letters, max_queue=3)
    text = reload(daemon, manager_socket)
    assert "max_queue 32 → 3" in text
    assert "stays loaded" in text
    assert daemon.status()["queue"]["limit"] == 3
    assert daemon.engine_pid == engine_pid

    config.write_text("slotz = 1")
    text = reload(daemon, manager_socket)
    assert "not taken" in text
    assert "'slots'" in text
    assert daemon.engine_pid == engine_pid

    write(config, models.markov, ctx=512)
    text = reload(daemon, manager_socket)
    assert "ctx auto → 512" in text
    assert "starts anew" in text
    status = daemon.status()
    assert status["engine"]["pid"] != engine_pid
    assert status["engine"]["restarts"] == 0
    assert (status["model"]["id"], status["model"]["n_ctx"]) == ("markov", 512)
    assert daemon.complete("a", 1)["model"] == "markov"


def test_a_model_that_does_not_load_leaves_the_old_one(
    daemon: Daemon, models: Models, config: Path, manager_socket: NotifySocket, tmp_path: Path
) -> None:
    from dataclasses import replace

    from tests.kits import gguf_kit

    foreign = replace(gguf_kit.markov_llama(gguf_kit.permutation()), architecture="nextyear")
    write(config, foreign.write(tmp_path / "new.gguf"))
    text = reload(daemon, manager_socket)
    assert "not taken" in text
    assert "'nextyear'" in text
    assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"
    assert daemon.alive


def test_a_stream_ends_and_a_waiting_request_moves_over(
    daemon: Daemon, models: Models, config: Path, manager_socket: NotifySocket
) -> None:
    with daemon.stream("/v1/completions", {"prompt": "a", "max_tokens": 900, **GREEDY}) as stream:
        stream.first_text()
        write(config, models.letters, ctx=700)
        reload(daemon, manager_socket)
        last = list(stream.events())[-1]
    assert "error" not in last or last["error"]["code"] == "engine_restarted"
    eventually(daemon.is_idle, "nothing is left over")
    assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"


def gpu_from_try(folder: Path, number: int) -> dict[str, str]:
    """Environment in which the library finds a GPU from the given engine on, counted from 1; 0: never."""
    tries = folder / "tries"
    tries.touch()
    return in_the_engine(
        folder,
        f"""
from pathlib import Path
from homespec.engine.llama.library import Library
path = Path({str(tries)!r})
path.write_text(path.read_text() + "x")
there = 0 < {number} <= len(path.read_text())
Library.offload_devices = lambda self: ("CUDA0",) if there else ()
""",
    )


def test_a_gpu_that_comes_late_is_waited_for(models: Models, tmp_path: Path) -> None:
    environment = {**gpu_from_try(tmp_path, 2), "HOMESPEC_GPU_LAYERS": "99"}
    with running(tmp_path, str(models.letters), environment=environment) as daemon:
        assert daemon.health().json()["device"] == "CUDA0"
        assert daemon.health().json()["detail"] == "ready"
        assert any("looks at the driver; waiting for it" in event["text"] for event in daemon.status()["events"])


def test_without_its_gpu_it_serves_from_the_cpu_if_told_to_and_says_so(models: Models, tmp_path: Path) -> None:
    environment = {"HOMESPEC_GPU_LAYERS": "99", "HOMESPEC_GPU_WAIT_S": "0", "HOMESPEC_GPU_MISSING": "cpu"}
    with running(tmp_path, str(models.letters), environment={**gpu_from_try(tmp_path, 0), **environment}) as daemon:
        health = daemon.health().json()
        assert health["device"] == "CPU"
        assert health["status"] == "degraded"
        assert "on the CPU: gpu_layers = 99 asks for a GPU" in health["degraded"]
        assert health["degraded"] in health["detail"]


def test_without_its_gpu_it_fails_by_default(models: Models, tmp_path: Path) -> None:
    environment = {**gpu_from_try(tmp_path, 0), "HOMESPEC_GPU_LAYERS": "1", "HOMESPEC_GPU_WAIT_S": "0"}
    finished = run_serve(tmp_path, str(models.letters), "--port", "0", environment=environment)
    assert finished.code == ExitCode.ENGINE_FAILED
    assert "gpu_layers = 1 asks for a GPU" in finished.stderr.splitlines()[-1]
