"""Which memory is one pool, and which of several numbers counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from homespec.cgroup import GroupMemory
from homespec.headroom.pools import HostReading, pools
from homespec.headroom.readings import CardReading, HostMemory, Pool
from homespec.status import DeviceMemory
from homespec.units import GIB, MIB

HOST = HostReading(HostMemory(16 * GIB, 10 * GIB), None, 0)
BIG = DeviceMemory("CUDA0", "NVIDIA GeForce RTX 4090", "0000:0a:00.0", False, 24 * GIB - 600 * MIB, 20 * GIB)
SMALL = DeviceMemory("CUDA1", "NVIDIA GeForce RTX 4060", "0000:0b:00.0", False, 8 * GIB - 300 * MIB, 6 * GIB)
CARDS = {
    "0000:0a:00.0": CardReading(24 * GIB - 500 * MIB, 19 * GIB, "NVML v2"),
    "0000:0b:00.0": CardReading(8 * GIB - 200 * MIB, 5 * GIB, "NVML v2"),
}


def pools_of(
    *devices: DeviceMemory, host: HostReading = HOST, cards: Mapping[str, CardReading] = CARDS
) -> tuple[Pool, ...]:
    return pools(host, devices, lambda device: cards.get(device.device_id or ""))


def test_a_box_without_devices() -> None:
    assert pools_of() == (Pool("host", "main memory", 16 * GIB, 10 * GIB, "MemAvailable", ("CPU",)),)


def test_what_the_engine_has_mapped_is_not_to_be_had() -> None:
    [host] = pools_of(host=replace(HOST, mapped_bytes=4 * GIB))
    assert host.free_bytes == 6 * GIB
    assert host.source == "MemAvailable without 4.00 GiB mapped by the engine"


def test_the_tightest_limit_binds() -> None:
    group = GroupMemory(Path("/sys/fs/cgroup/a"), 4 * GIB, GIB)
    [host] = pools_of(host=replace(HOST, group=group))
    assert (host.total_bytes, host.free_bytes, host.source) == (4 * GIB, GIB, "control group /sys/fs/cgroup/a")
    [host] = pools_of(host=replace(HOST, group=replace(group, limit_bytes=64 * GIB, available_bytes=60 * GIB)))
    assert (host.total_bytes, host.free_bytes, host.source) == (16 * GIB, 10 * GIB, "MemAvailable")


def test_a_box_that_tells_nothing() -> None:
    unknown = HostReading(HostMemory(None, None), None, GIB)
    [host] = pools_of(host=unknown)
    assert (host.total_bytes, host.free_bytes, host.source) == (None, None, "cannot be read")


def test_cards_keep_their_own_numbers_whatever_their_order() -> None:
    for devices in ((BIG, SMALL), (SMALL, BIG)):
        by_name = {pool.name: pool for pool in pools_of(*devices)}
        assert by_name["CUDA0"].free_bytes == 19 * GIB
        assert by_name["CUDA1"].free_bytes == 5 * GIB
        assert by_name["CUDA0"].members == ("CUDA0",)


def test_without_nvml_llama_cpps_numbers_count_and_the_reason_is_told() -> None:
    cards = {"0000:0a:00.0": CardReading.unknown("the card at 0000:0a:00.0 sleeps")}
    _, big, small = pools_of(BIG, SMALL, cards=cards)
    assert (big.total_bytes, big.free_bytes) == (BIG.total_bytes, BIG.free_bytes)
    assert big.source == "llama.cpp (the card at 0000:0a:00.0 sleeps)"
    assert small.source == "llama.cpp"


def test_what_neither_knows_is_unknown_and_not_zero() -> None:
    silent = replace(BIG, total_bytes=None, free_bytes=None)
    for cards, source in (({}, "llama.cpp does not know"), ({"0000:0a:00.0": CardReading.unknown("lost")}, "lost")):
        _, big = pools_of(silent, cards=cards)
        assert (big.total_bytes, big.free_bytes, big.source) == (None, None, source)


def test_a_part_of_a_card_has_its_own_size() -> None:
    part = replace(BIG, total_bytes=10 * GIB, free_bytes=9 * GIB)
    _, pool = pools_of(part)
    assert (pool.total_bytes, pool.free_bytes) == (10 * GIB, 9 * GIB)
    assert pool.source == "llama.cpp: a part of a card of 23.51 GiB"


def test_integrated_graphics_and_apples_chips_share_the_hosts_memory() -> None:
    for device in (
        DeviceMemory("Vulkan0", "Intel Iris", "0000:00:02.0", True, 16 * GIB, 9 * GIB),
        DeviceMemory("MTL0", "Apple M2", None, False, 12 * GIB, 9 * GIB),
    ):
        [host] = pools_of(device, cards={})
        assert host.members == ("CPU", device.name)
        assert (host.total_bytes, host.free_bytes) == (16 * GIB, 9 * GIB)
        assert host.description == "unified memory"
        assert f"{device.name} may use" in host.source


def test_a_board_whose_card_has_no_memory_of_its_own() -> None:
    """GB10, Jetson: NVML does not support the query, and the total is the host's."""
    board = DeviceMemory("CUDA0", "NVIDIA GB10", "000f:01:00.0", False, 15 * GIB, 11 * GIB)
    unsupported = CardReading(None, None, "NVML on 000f:01:00.0: Not Supported", is_supported=False)
    [host] = pools_of(board, cards={"000f:01:00.0": unsupported})
    assert host.free_bytes == 10 * GIB


def test_a_card_as_large_as_the_hosts_memory_is_still_a_card() -> None:
    twin = replace(BIG, total_bytes=16 * GIB, free_bytes=15 * GIB)
    assert len(pools_of(twin, cards={"0000:0a:00.0": CardReading(16 * GIB, 14 * GIB, "NVML v2")})) == 2
    assert len(pools_of(twin, cards={"0000:0a:00.0": CardReading.unknown("lost")})) == 2
