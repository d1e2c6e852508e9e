"""Readings of memory: a number, or None."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from homespec.headroom.cards import Cards
from homespec.headroom.probe import Probe, card_addresses, doubt, host_memory, mapped_bytes, resident_bytes
from homespec.headroom.readings import CardReading, HostMemory
from homespec.status import DeviceMemory
from homespec.units import MIB


def test_this_box() -> None:
    memory = host_memory()
    assert memory.total_bytes is not None
    assert memory.available_bytes is not None
    assert 0 < memory.available_bytes <= memory.total_bytes


def test_a_box_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable() -> None:
        raise PermissionError("/proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", unreadable)
    assert host_memory() == HostMemory(None, None)


def test_only_cards_that_are_read_are_beyond_doubt_and_one_that_is_lost_is_enough() -> None:
    well, silent = CardReading(8, 4, "NVML v2"), CardReading.unknown("the card sleeps")
    lost = CardReading(None, None, "GPU is lost", is_lost=True)
    assert doubt([]) == doubt([well, well]) == ""
    assert doubt([well, silent]) is None
    found = doubt([well, silent, lost])
    assert found is not None
    assert found.startswith("GPU is lost; ")


def test_this_process() -> None:
    resident = resident_bytes(os.getpid())
    assert resident is not None
    assert resident > 1_000_000


def test_a_process_that_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert resident_bytes(process.pid) is None


def test_no_process() -> None:
    assert resident_bytes(None) is None


def test_mapped_files_count_as_long_as_they_are_in_use(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(32 * MIB))
    before = mapped_bytes(os.getpid())
    if before is None:
        pytest.skip("this system does not tell")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) > 0
        during = mapped_bytes(os.getpid())
        assert during is not None
        assert during >= before + 30 * MIB
    after = mapped_bytes(os.getpid())
    assert after is not None
    assert after < during - 20 * MIB


def test_everything_of_this_box_at_once(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"x" * MIB)
    probe = Probe(target, Cards())
    first = probe.read(os.getpid(), (), maps_target=True, now_s=100.0)
    assert first.major_faults_per_s is None
    readings = probe.read(os.getpid(), (), maps_target=True, now_s=101.0)
    [host] = readings.pools
    assert host.total_bytes is not None
    assert host.free_bytes is not None
    assert 0 < host.free_bytes <= host.total_bytes
    if sys.platform == "linux":
        assert readings.resident_share == 1.0
        assert readings.major_faults_per_s is not None
    assert probe.read(os.getpid(), (), maps_target=False, now_s=102.0).resident_share is None
    assert probe.read(1, (), maps_target=False, now_s=103.0).major_faults_per_s is None  # another engine


def test_a_target_that_is_gone_is_unknown(tmp_path: Path) -> None:
    probe = Probe(tmp_path / "gone", Cards())
    assert probe.read(os.getpid(), (), maps_target=True, now_s=0.0).resident_share is None


def test_a_model_in_several_files_is_watched_whole(tmp_path: Path) -> None:
    first, second = (tmp_path / f"model-0000{index}-of-00002.gguf" for index in (1, 2))
    first.write_bytes(b"x" * MIB)
    probe = Probe(first, Cards())
    assert probe.read(os.getpid(), (), maps_target=True, now_s=0.0).resident_share is None
    second.write_bytes(b"")
    with second.open("r+b") as file:
        file.truncate(MIB)  # a hole is in nobody's memory
    share = probe.read(os.getpid(), (), maps_target=True, now_s=2.0).resident_share
    assert share == (0.5 if sys.platform == "linux" else None)


def test_nvml_is_asked_about_nvidias_cards_only() -> None:
    def device(name: str, description: str, address: str | None) -> DeviceMemory:
        return DeviceMemory(name, description, address, False, None, None)

    devices = [
        device("CUDA0", "a card", "0000:0a:00.0"),
        device("Vulkan0", "AMD Radeon", "0000:0b:00.0"),
        device("Vulkan1", "NVIDIA GeForce", "0000:0c:00.0"),
        device("CUDA1", "a card", None),
    ]
    assert card_addresses(devices) == ["0000:0a:00.0", "0000:0c:00.0"]
    by_name = {
        pool.name: pool for pool in Probe(Path("/nope"), Cards()).read(1, devices, maps_target=False, now_s=0).pools
    }
    assert by_name["Vulkan0"].source == by_name["CUDA1"].source == "llama.cpp does not know"
    assert by_name["CUDA0"].source == "NVML has not answered yet"
