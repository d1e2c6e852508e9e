"""What kind of box this is: facts that do not change while it runs."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from homespec import nvidia
from homespec.cgroup import ControlGroups

_NVIDIA = "0x10de"
_PCI_DEVICES, _WSL_NODE = Path("/sys/bus/pci/devices"), Path("/dev/dxg")


@dataclass(frozen=True, slots=True)
class Box:
    device: str
    """cpu, nvidia or apple."""
    memory_bytes: int | None
    """Of the largest GPU, else of the machine or of the control group that this is in; None when it cannot be read."""


def detect() -> Box:
    """Looks at the machine; takes as long as the NVIDIA driver takes to answer, where there is one."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return Box("apple", _host_bytes())
    gpu = _nvidia_bytes()
    return Box("cpu", _host_bytes()) if gpu is None else Box("nvidia", gpu)


def _host_bytes() -> int | None:
    """What may be used of it: a container's limit is all that there is."""
    group = ControlGroups().tightest()
    limits = [group.limit_bytes] if group is not None else []
    with suppress(OSError):
        limits.append(int(psutil.virtual_memory().total))
    return min(limits, default=None)


def _nvidia_bytes() -> int | None:
    """Memory of the largest NVIDIA GPU; None without one, or without a driver that answers.

    Its tool asks the same library, and is missing in many containers and in WSL.
    """
    if not _may_have_nvidia():
        return None
    try:
        cards = json.loads(nvidia.ask("null").stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return max((card["total_bytes"] or 0 for card in cards.values() if isinstance(card, dict)), default=0) or None


def _may_have_nvidia() -> bool:
    """By the vendor of what is plugged in; WSL shows a node of its own."""
    if _WSL_NODE.exists():
        return True
    for vendor in _PCI_DEVICES.glob("*/vendor"):
        with suppress(OSError):
            if vendor.read_text().strip() == _NVIDIA:
                return True
    return False
