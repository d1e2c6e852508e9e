"""A daemon on a box with two cards that are not there: llama.cpp's devices are made up, the driver is compiled."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from homespec.errors import ExitCode
from homespec.units import GIB, MIB
from tests.daemons import eventually, in_the_engine, running
from tests.kits.models import Models
from tests.kits.nvml import build_driver

pytestmark = pytest.mark.process

DEVICES = """
import homespec.engine.llama.library as library
from homespec.status import DeviceMemory
cards = (
    DeviceMemory("CUDA0", "the big one", "0000:0a:00.0", False, 23 << 30, 20 << 30),
    DeviceMemory("CUDA1", "the small one", "0000:0b:00.0", False, 15 << 29, 6 << 30),
)
library.Library.device_memory = lambda self: cards
"""


def test_cards_are_pools_of_their_own_and_a_hung_driver_holds_nobody(models: Models, tmp_path: Path) -> None:
    behaviour = tmp_path / "behaviour"
    behaviour.write_text("")
    environment = {
        **in_the_engine(tmp_path, DEVICES),
        "LD_LIBRARY_PATH": str(build_driver(tmp_path)),
        "FAKE_NVML": str(behaviour),
    }
    with running(tmp_path, str(models.letters), environment=environment) as daemon:

        def pool(name: str) -> Any:
            return {pool["name"]: pool for pool in daemon.status()["memory"]["pools"]}.get(name, {"source": ""})

        eventually(lambda: pool("CUDA0")["source"] == "NVML v2", "the driver answers", 60)
        assert pool("CUDA0")["total_bytes"] == 24 * GIB - 500 * MIB
        assert pool("CUDA1")["free_bytes"] == 7 * GIB - 400 * MIB
        assert pool("host")["target"]["weights_bytes"] > 0
        assert pool("CUDA0")["target"]["weights_bytes"] == 0
        assert 'homespec_pool_free_bytes{pool="CUDA1"}' in daemon.metrics()

        behaviour.write_text("hang")
        assert daemon.complete("a", 5)["choices"][0]["text"] == "bcdef"
        assert daemon.health().status_code == 200
        eventually(lambda: "may hang" in pool("CUDA0")["source"], "it is given up", 60)
        assert pool("CUDA0")["free_bytes"] == 20 * GIB  # what llama.cpp tells is still there
        daemon.signal(signal.SIGTERM)
        assert daemon.wait_exit() == ExitCode.OK
        assert daemon.survivors() == []
        assert "Traceback" not in daemon.log()
