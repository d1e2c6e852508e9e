"""A GPU that goes while a daemon uses it. llama.cpp's device is made up, NVIDIA's library compiled."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.daemons import GREEDY, Daemon, eventually, in_processes, running
from tests.kits.models import Models
from tests.kits.nvml import build_driver

pytestmark = pytest.mark.process

CARD = "0000:0a:00.0"
LOST, UNKNOWN_ERROR = 15, 999
ENDLESS = {"prompt": "a", "max_tokens": 29_000, **GREEDY}


class Machine:
    """Has a card until `lose`, by halves after `half_find`, and again after `find`. A process sees what there was when
    it started.
    """

    def __init__(self, folder: Path) -> None:
        self._behaviour, self._gone, self._broken = (folder / name for name in ("behaviour", "gone", "broken"))
        self._behaviour.write_text("")
        devices = f"""
import homespec.engine.llama.library as library
import homespec.engine.llama.model as model
from homespec.status import DeviceMemory
is_there = not os.path.exists({str(self._gone)!r})
card = DeviceMemory("CUDA0", "a card", {CARD!r}, False, 23 << 30, 20 << 30)
library.Library.offload_devices = lambda self: ("CUDA0",) if is_there else ()
library.Library.is_for_cpu_only = False
library.Library.device_memory = lambda self: (card,) if is_there else ()
if os.path.exists({str(self._broken)!r}):
    load = model.C.llama_model_load_from_file
    fail = os.abort if open({str(self._broken)!r}).read() else lambda: None
    model.C.llama_model_load_from_file = lambda path, params: fail() if params.n_gpu_layers else load(path, params)
"""
        self.environment = {
            **in_processes(folder, devices, "homespec.engine", "homespec.engine.surveyor"),
            "LD_LIBRARY_PATH": str(build_driver(folder)),
            "FAKE_NVML": str(self._behaviour),
        }

    def say(self, code: int) -> None:
        """NVML answers so about the card."""
        self._behaviour.write_text(f"card={CARD}:{code}")

    def lose(self, code: int) -> None:
        self._gone.touch()
        self.say(code)

    def half_find(self, *, is_fatal: bool = False) -> None:
        """It is listed, and nothing can be loaded onto it; an engine that tries may die of it."""
        self._broken.write_text("dies" if is_fatal else "")
        self._gone.unlink(missing_ok=True)

    def find(self) -> None:
        self._broken.unlink(missing_ok=True)
        self._gone.unlink(missing_ok=True)
        self._behaviour.write_text("")


def wait_for(daemon: Daemon, status: str) -> Any:
    """What /health says once it is in that state."""

    def seen() -> Any:
        health = daemon.health().json()
        return health if health["status"] == status else None

    return eventually(seen, f"it is {status}", 60)


def wait_for_nvml(daemon: Daemon) -> None:
    def reads() -> bool:
        memory = daemon.status()["memory"]
        return bool(memory) and any(pool["source"] == "NVML v2" for pool in memory["pools"])

    eventually(reads, "the driver answers", 60)


def test_it_is_looked_for_by_fresh_engines_and_used_again(models: Models, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    environment = {**machine.environment, "HOMESPEC_GPU_LAYERS": "99", "HOMESPEC_GPU_WAIT_S": "600"}
    with running(tmp_path, str(models.letters), environment=environment) as daemon:
        assert daemon.health().json()["device"] == "CUDA0"
        wait_for_nvml(daemon)
        machine.lose(LOST)
        wait_for(daemon, "restarting")
        eventually(lambda: "waiting for it" in daemon.health().json()["detail"], "it is waited for")
        health = daemon.health()
        assert health.status_code == 503
        assert "the GPU that was in use is gone" in health.json()["degraded"]
        assert "homespec doctor" in daemon.status()["degraded"]
        machine.half_find()
        eventually(lambda: "does not take the model" in daemon.health().json()["degraded"], "it is tried", 60)
        machine.find()
        health = wait_for(daemon, "ok")
        assert (health["device"], health["degraded"]) == ("CUDA0", None)
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"
        engine = daemon.status()["engine"]
        assert engine["restarts"] == 1
        assert "lost" in engine["last_exit"].lower()
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit() == 0
        assert daemon.survivors() == []


def test_after_the_wait_an_automatic_number_of_layers_goes_to_the_cpu_says_so_and_comes_back(
    models: Models, tmp_path: Path
) -> None:
    """Nothing is said by the driver here: the engine dies of it."""
    machine = Machine(tmp_path)
    configured = tmp_path / "config" / "homespec" / "config.toml"
    configured.parent.mkdir(parents=True)
    configured.write_text("slots = 1")
    environment = {**machine.environment, "HOMESPEC_GPU_WAIT_S": "0.5"}
    with running(tmp_path, str(models.letters), environment=environment) as daemon:

        def hang_up(until: str) -> None:
            """Have the daemon look at everything again, and wait for what it says."""
            daemon.signal(signal.SIGHUP)
            eventually(lambda: any(until in event["text"] for event in daemon.status()["events"]), until, 60)

        assert daemon.health().json()["device"] == "CUDA0"
        machine.lose(UNKNOWN_ERROR)
        psutil.Process(daemon.engine_pid).send_signal(signal.SIGABRT)
        health = wait_for(daemon, "degraded")
        assert daemon.health().status_code == 200
        assert health["device"] == "CPU"
        for text in (health["degraded"], daemon.status()["degraded"], health["detail"]):
            assert "on the CPU: the GPU that was in use is gone" in text
            assert "it is looked for again while nothing runs" in text
        assert "homespec_degraded 1.0" in daemon.metrics()
        hang_up("looked for a GPU: llama.cpp finds none")
        # What else is configured is taken, GPU or no GPU.
        configured.write_text("slots = 2")
        hang_up("slots 1 → 2; the engine starts anew")
        assert wait_for(daemon, "degraded")["device"] == "CPU"
        for is_fatal, until in (False, "does not take the model"), (True, "while it loaded the model onto the GPU"):
            machine.half_find(is_fatal=is_fatal)
            hang_up(until)
            assert wait_for(daemon, "degraded")["device"] == "CPU"
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"
        machine.find()
        hang_up("CUDA0 is there now")
        health = wait_for(daemon, "ok")
        assert (health["device"], health["degraded"]) == ("CUDA0", None)
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"


def test_one_that_comes_after_the_daemon_is_used_where_layers_are_automatic(models: Models, tmp_path: Path) -> None:
    """Nobody has asked for it: it is not waited for, and the CPU may serve without a word."""
    machine = Machine(tmp_path)
    machine.lose(LOST)
    environment = {**machine.environment, "HOMESPEC_FIT": "auto"}
    with running(tmp_path, str(models.letters), environment=environment) as daemon:
        health = daemon.health().json()
        assert (health["status"], health["device"], health["degraded"]) == ("ok", "CPU", None)
        machine.find()
        daemon.signal(signal.SIGHUP)
        eventually(lambda: daemon.health().json()["device"] == "CUDA0", "it is used", 60)
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"


def test_a_driver_that_is_wrong_costs_one_engine_and_no_answer(models: Models, tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with running(tmp_path, str(models.letters), "--ctx", "30000", environment=machine.environment) as daemon:
        wait_for_nvml(daemon)
        with daemon.stream("/v1/completions", ENDLESS) as stream:
            stream.first_text()
            machine.say(UNKNOWN_ERROR)
            health = wait_for(daemon, "degraded")
            assert "Unknown" in health["degraded"]
            assert "reload the driver" in health["degraded"]
            assert daemon.restarts() == 0
            stream.first_text()
        eventually(lambda: daemon.restarts() == 1, "a fresh engine looks", 60)
        health = wait_for(daemon, "ok")
        assert (health["device"], health["degraded"]) == ("CUDA0", None)
        pools = eventually(lambda: (daemon.status()["memory"] or {}).get("pools"), "memory is watched")
        assert "Unknown" in pools[-1]["source"]
        assert daemon.complete("a", 3)["choices"][0]["text"] == "bcd"
        assert daemon.restarts() == 1
