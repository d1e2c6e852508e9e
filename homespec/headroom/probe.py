"""All readings of one moment. None where a value cannot be read, never a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from homespec.cgroup import ControlGroups
from homespec.headroom.cards import Cards
from homespec.headroom.pools import HostReading, pools
from homespec.headroom.pressure import Rate, major_faults, stalled_us
from homespec.headroom.readings import CardReading, HostMemory, Pool
from homespec.headroom.residency import MappedModel, can_tell
from homespec.split import parts
from homespec.status import DeviceMemory

RESIDENCY_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class Readings:
    pools: tuple[Pool, ...]
    stall_share: float | None
    """Share of the last second in which every task waited for memory."""
    stall_is_own: bool
    """Measured in this process's own control group, not on the whole box."""
    major_faults_per_s: float | None
    resident_share: float | None
    """Share of the target's mapped files that is in memory."""
    gpu_doubt: str | None = ""
    """What NVML says against a card that was there before; None: it says nothing of some card, good or bad."""


class Probe:
    """Reads files of the kernel and the latest answer about cards; never waits for a driver."""

    def __init__(self, target: Path, cards: Cards, root: Path = Path("/")) -> None:
        self._target = parts(target)
        self._cards = cards
        self._root = root
        self._mapped: MappedModel | None = None
        self._share: float | None = None
        self._share_at_s = float("-inf")
        self._groups = ControlGroups(root)
        own = self._groups.pressure_file()
        self._stall_is_own = own is not None
        self._stall_path = own or root / "proc/pressure/memory"
        self._stalled = Rate()
        self._faults = Rate()
        self._pid: int | None = None

    def read(self, pid: int, devices: Sequence[DeviceMemory], *, maps_target: bool, now_s: float) -> Readings:
        """pid: the engine's. maps_target: it decodes from the mapped file, so that the file has to stay in memory."""
        if pid != self._pid:
            self._pid, self._faults = pid, Rate()
        stalled = self._stalled.update(stalled_us(self._stall_path), now_s)
        host = HostReading(host_memory(), self._groups.tightest(), mapped_bytes(pid) or 0)
        return Readings(
            pools=pools(host, devices, self._card),
            stall_share=None if stalled is None else stalled / 1e6,
            stall_is_own=self._stall_is_own,
            major_faults_per_s=self._faults.update(major_faults(pid, self._root / "proc"), now_s),
            resident_share=self._resident_share(now_s) if maps_target else None,
            gpu_doubt=doubt([card for each in devices if (card := self._card(each)) is not None]),
        )

    def _card(self, device: DeviceMemory) -> CardReading | None:
        return self._cards.reading(device.device_id) if device.device_id and is_nvidia(device) else None

    def _resident_share(self, now_s: float) -> float | None:
        if now_s - self._share_at_s >= RESIDENCY_INTERVAL_S:
            self._share_at_s = now_s
            self._share = self._look_at_model()
        return self._share

    def _look_at_model(self) -> float | None:
        if not all(can_tell(path) for path in self._target):
            return None
        try:
            self._mapped = self._mapped or MappedModel(self._target)
        except (OSError, ValueError):
            return None
        return self._mapped.resident_share()


def doubt(cards: Sequence[CardReading]) -> str | None:
    """As in Readings."""
    if lost := next((card for card in cards if card.is_lost), None):
        return f"{lost.source}; should a fresh engine not find it, reload the driver or restart the machine"
    return "" if all(card.total_bytes is not None for card in cards) else None


def is_nvidia(device: DeviceMemory) -> bool:
    """Whether NVML may know a device, whichever backend reaches it."""
    return device.name.startswith("CUDA") or "NVIDIA" in device.description


def card_addresses(devices: Sequence[DeviceMemory]) -> list[str]:
    """PCI addresses to ask NVML about."""
    return [device.device_id for device in devices if device.device_id and is_nvidia(device)]


def host_memory() -> HostMemory:
    """The box's own memory; what a process could still get without swapping."""
    try:
        memory = psutil.virtual_memory()
    except OSError:
        return HostMemory(None, None)
    return HostMemory(memory.total, memory.available)


def resident_bytes(pid: int | None) -> int | None:
    """Resident memory of a process, mapped model files included; None when it is gone."""
    if pid is None:
        return None
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None


def mapped_bytes(pid: int) -> int | None:
    """Resident pages of files that a process has mapped; None when it is gone or the system does not tell."""
    try:
        memory = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None
    shared = getattr(memory, "shared", None)
    return None if shared is None else int(shared)
