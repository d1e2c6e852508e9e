"""From single readings to pools of memory. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from homespec.cgroup import GroupMemory
from homespec.headroom.readings import CardReading, HostMemory, Pool
from homespec.status import DeviceMemory
from homespec.units import format_bytes, one_line

HOST = "host"
CPU = "CPU"
"""llama.cpp's name for what lies in host memory."""
_SAME_SHARE = 0.10
"""Totals that differ by less mean the same memory: the driver keeps some for itself."""


@dataclass(frozen=True, slots=True)
class HostReading:
    """Everything that bounds allocations in host memory."""

    memory: HostMemory
    group: GroupMemory | None
    mapped_bytes: int
    """Mapped file pages that the engine holds, the target's weights above all: they count as available and are not."""


def pools(
    host: HostReading, devices: Sequence[DeviceMemory], card: Callable[[DeviceMemory], CardReading | None]
) -> tuple[Pool, ...]:
    """The host's pool, and one for each device with memory of its own. `card`: NVML's reading of a device, None for one
    that NVML cannot know.
    """
    pairs = [(device, card(device)) for device in devices]
    unified = [device for device, reading in pairs if _is_unified(device, reading, host.memory)]
    separate = [_device_pool(device, reading) for device, reading in pairs if device not in unified]
    return (_host_pool(host, unified), *separate)


def _host_pool(host: HostReading, unified: Sequence[DeviceMemory]) -> Pool:
    """The least of what the box, the control groups and devices that share the memory still give."""
    total, free, source = host.memory.total_bytes, host.memory.available_bytes, "MemAvailable"
    if free is not None and host.mapped_bytes:
        free = max(free - host.mapped_bytes, 0)
        source = f"MemAvailable without {format_bytes(host.mapped_bytes)} mapped by the engine"
    if host.group is not None:
        total = min(host.group.limit_bytes, total) if total is not None else host.group.limit_bytes
        if free is None or host.group.available_bytes < free:
            free, source = host.group.available_bytes, f"control group {one_line(str(host.group.path))}"
    for device in unified:
        if device.free_bytes is not None and (free is None or device.free_bytes < free):
            free, source = device.free_bytes, f"{device.name} may use {format_bytes(device.total_bytes)}"
    names = tuple(device.name for device in unified)
    description = "unified memory" if unified else "main memory"
    return Pool(HOST, description, total, free, source if free is not None else "cannot be read", (CPU, *names))


def _device_pool(device: DeviceMemory, card: CardReading | None) -> Pool:
    """NVML sees what all processes do; llama.cpp's own numbers are the cross-check and the fallback.

    A total that llama.cpp sees much smaller is a part of the card (MIG, vGPU), of which NVML tells the whole.
    """
    total, free, source = device.total_bytes, device.free_bytes, "llama.cpp"
    if card is not None and card.total_bytes is not None:
        if total is None or _are_same(total, card.total_bytes):
            total, free, source = card.total_bytes, card.free_bytes, card.source
        else:
            source = f"llama.cpp: a part of a card of {format_bytes(card.total_bytes)}"
    elif card is not None:
        source = f"llama.cpp ({card.source})" if total is not None else card.source
    elif total is None:
        source = "llama.cpp does not know"
    return Pool(device.name, device.description, total, free, source, (device.name,))


def _is_unified(device: DeviceMemory, card: CardReading | None, host: HostMemory) -> bool:
    """Integrated graphics, Apple's chips, and boards of NVIDIA's (Jetson, GB10) whose cards have no memory to tell of.

    A total near the host's is no proof by itself: a card may be as large as the box's memory by chance.
    """
    if device.integrated or device.name.startswith(("MTL", "Metal")):
        return True
    if card is None or card.is_supported or device.total_bytes is None or host.total_bytes is None:
        return False
    return _are_same(device.total_bytes, host.total_bytes)


def _are_same(left: int, right: int) -> bool:
    return abs(left - right) <= _SAME_SHARE * max(left, right)
