"""Graphics cards: is there one, does its driver answer, may this user open it, does llama.cpp reach it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from homespec import nvidia
from homespec.doctor.check import Check, fail, ok, warn

_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD"}
"""PCI vendors whose cards are worth a build of their own."""
_DISPLAY_CLASS = "0x03"
_NODES = ("nvidiactl", "nvidia0", "kfd", "dri/renderD128")
_DOCS = "docs/install.md"


@dataclass(frozen=True, slots=True)
class Gpus:
    """What the system knows of cards, llama.cpp aside."""

    vendors: frozenset[str] = frozenset()
    """NVIDIA, AMD."""
    driver: str | None = None
    """NVIDIA's driver as the kernel names it; None without one."""
    nvml_fault: str | None = None
    """Why the driver's library does not answer."""
    closed: tuple[str, ...] = ()
    """Device files that are there and that this user may not open."""


def read_gpus(root: Path = Path("/"), nvml: Sequence[str] = nvidia.COMMAND) -> Gpus:
    """Looks at the kernel's files; asks NVML where there is a driver of NVIDIA's."""
    driver = _driver(root)
    nodes = [root / "dev" / name for name in _NODES]
    closed = tuple(str(node) for node in nodes if node.exists() and not os.access(node, os.R_OK | os.W_OK))
    return Gpus(frozenset(_vendors(root)), driver, _ask_nvml(nvml) if driver else None, closed)


def _driver(root: Path) -> str | None:
    try:
        return (root / "proc/driver/nvidia/version").read_text().splitlines()[0].partition(":")[2].strip()
    except (OSError, IndexError):
        return "of Windows" if (root / "usr/lib/wsl/lib/libnvidia-ml.so.1").exists() else None


def _vendors(root: Path) -> Iterator[str]:
    for device in (root / "sys/bus/pci/devices").glob("*"):
        try:
            is_display = (device / "class").read_text().startswith(_DISPLAY_CLASS)
            vendor = (device / "vendor").read_text().strip()
        except OSError:
            continue
        if is_display and vendor in _VENDORS:
            yield _VENDORS[vendor]


def _ask_nvml(command: Sequence[str]) -> str | None:
    """The fault; None when it answers. A wedged driver never does, so it is asked in a process of its own."""
    try:
        done = nvidia.ask("[]", command)
    except subprocess.TimeoutExpired:
        return f"no answer within {nvidia.TIMEOUT_S:g} s: the driver hangs"
    answer = done.stdout.strip()
    if done.returncode or not answer.startswith("{"):
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return None if answer == "{}" else answer.partition('"error": "')[2].rpartition('"')[0] or answer


def check_gpus(gpus: Gpus, devices: tuple[str, ...] | None, gpu_layers: int | None) -> Iterator[Check]:
    """devices: those that llama.cpp may put layers on; None when the library cannot be asked. gpu_layers: what was
    asked for; None: automatic.
    """
    names = " and ".join(sorted(gpus.vendors))
    if gpus.nvml_fault:
        yield warn("GPU driver", f"NVIDIA's driver does not answer: {gpus.nvml_fault}", "reboot, or reload the driver")
    elif gpus.driver:
        yield ok("GPU driver", gpus.driver)
    elif "NVIDIA" in gpus.vendors:
        yield warn("GPU driver", "there is an NVIDIA card and no driver of NVIDIA's", f"install it; see {_DOCS}")
    if gpus.closed:
        yield warn(
            "GPU access",
            f"this user may not open {', '.join(gpus.closed)}",
            "sudo usermod -aG video,render $USER, then log in again",
        )
    if devices is None:
        return
    if devices:
        yield ok("GPU", f"llama.cpp uses {', '.join(devices)}")
    elif gpu_layers:
        yield fail(
            "GPU",
            f"gpu_layers = {gpu_layers} asks for a GPU, and llama.cpp finds none",
            f"install a build for it ({_DOCS}), or set gpu_layers = 'auto'",
        )
    elif names:
        yield warn(
            "GPU",
            f"there is a card of {names}, and this build of llama.cpp serves from the CPU",
            f"install a build for it: {_DOCS}",
        )
    else:
        yield ok("GPU", "none; the CPU serves")
