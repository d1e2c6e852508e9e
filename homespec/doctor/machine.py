"""The box itself: swap, stalls on memory, disk, clock."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

import homespec
from homespec.cgroup import ControlGroups, GroupMemory
from homespec.doctor.check import Check, fail, ok, warn
from homespec.headroom.probe import host_memory
from homespec.headroom.readings import HostMemory
from homespec.units import GIB, format_bytes

LITTLE_DISK_BYTES = 5 * GIB
"""Less does not take a model of the size that homes use."""
NO_DISK_BYTES = GIB // 2
STALLED_SHARE = 0.05
"""Of the last minute, waiting for memory: then pages that are needed come and go."""
_A_DAY_S = 86400
_TIMEDATECTL_TIMEOUT_S = 5


@dataclass(frozen=True, slots=True)
class Swap:
    total_bytes: int
    used_bytes: int


@dataclass(frozen=True, slots=True)
class Clock:
    now_unix: float
    installed_unix: float
    """When this program was put here: the clock cannot be before that."""
    is_synchronised: bool | None
    """By the system's service; None where it cannot be asked."""


def read_swap() -> Swap | None:
    try:
        swap = psutil.swap_memory()
    except (OSError, RuntimeError):
        return None
    return Swap(swap.total, swap.used)


def read_stalled_share(pressure: Path = Path("/proc/pressure/memory")) -> float | None:
    """Share of the last minute in which every task waited for memory (PSI); None where the kernel does not count."""
    try:
        lines = pressure.read_text().splitlines()
        [full] = [line for line in lines if line.startswith("full ")]
        return float(dict(part.split("=") for part in full.split()[1:])["avg60"]) / 100
    except (OSError, ValueError, KeyError):
        return None


def read_clock() -> Clock:
    installed = Path(homespec.__file__).stat().st_mtime
    return Clock(time.time(), installed, _is_synchronised())


def _is_synchronised() -> bool | None:
    program = shutil.which("timedatectl")
    if program is None:
        return None
    command = [program, "show", "--property=NTPSynchronized", "--value"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEDATECTL_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return {"yes": True, "no": False}.get(done.stdout.strip())


def check_memory(
    host: HostMemory, swap: Swap | None, stalled_share: float | None, group: GroupMemory | None = None
) -> Iterator[Check]:
    """group: of this process, which is the daemon's where both run in one container."""
    free = f"{format_bytes(host.available_bytes)} of {format_bytes(host.total_bytes)} free"
    if group is not None and (host.available_bytes is None or group.available_bytes < host.available_bytes):
        free += f", {format_bytes(group.available_bytes)} within the limit of {format_bytes(group.limit_bytes)}"
    if stalled_share is not None and stalled_share >= STALLED_SHARE:
        yield fail(
            "memory",
            f"{free}; everything waited for memory {stalled_share:.0%} of the last minute",
            "close programs, or serve a smaller model: 'homespec plan MODEL' says what fits",
        )
    else:
        stalls = "the kernel counts no stalls" if stalled_share is None else f"{stalled_share:.0%} stalled"
        yield ok("memory", f"{free}, {stalls}")
    if swap is None:
        yield ok("swap", "not known")
    elif swap.total_bytes and swap.used_bytes > swap.total_bytes / 2:
        yield warn(
            "swap",
            f"{format_bytes(swap.used_bytes)} of {format_bytes(swap.total_bytes)} in use: the box is short of memory",
            "close programs, or lower ctx and slots; a model in swap answers at the speed of the disk",
        )
    elif swap.total_bytes:
        yield ok("swap", f"{format_bytes(swap.used_bytes)} of {format_bytes(swap.total_bytes)} in use")
    else:
        yield ok("swap", "none")


def check_disk(name: str, folder: Path, free_bytes: int | None) -> Check:
    """free_bytes: on the disk of the folder."""
    text = f"{format_bytes(free_bytes)} free for {folder}"
    if free_bytes is None or free_bytes >= LITTLE_DISK_BYTES:
        return ok(name, text)
    remedy = "make room ('homespec models', 'homespec rm NAME'), or set models_dir to a folder on another disk"
    return fail(name, text, remedy) if free_bytes < NO_DISK_BYTES else warn(name, text, remedy)


def read_disk(folder: Path) -> int | None:
    """Free bytes where the folder is, or will be."""
    try:
        return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free
    except OSError:
        return None


def check_clock(clock: Clock) -> Check:
    if clock.now_unix < clock.installed_unix - _A_DAY_S:
        shown = time.strftime("%Y-%m-%d", time.gmtime(clock.now_unix))
        return fail(
            "clock",
            f"it says {shown}, which is before this program was installed: certificates are refused by pull",
            "sudo timedatectl set-ntp true, or set it by hand",
        )
    if clock.is_synchronised is False:
        return warn("clock", "it is not synchronised with the network", "sudo timedatectl set-ntp true")
    return ok("clock", "synchronised" if clock.is_synchronised else "plausible")


def examine_machine(models_dir: Path | None) -> Iterator[Check]:
    """models_dir: where models are pulled to; None when there is no such place."""
    group = ControlGroups().tightest()
    yield from check_memory(host_memory(), read_swap(), read_stalled_share(), group)
    if models_dir is not None:
        yield check_disk("disk", models_dir, read_disk(models_dir))
    yield check_clock(read_clock())
