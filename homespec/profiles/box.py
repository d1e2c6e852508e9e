"""What kind of box this is: facts that do not change while it runs."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass

import psutil

from homespec.cgroup import ControlGroups
from homespec.units import MIB

_QUERY = ("--query-gpu=memory.total", "--format=csv,noheader,nounits")
_QUERY_TIMEOUT_S = 10


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
    """Memory of the largest NVIDIA GPU; None without one, or without a driver that answers."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run([program, *_QUERY], capture_output=True, text=True, timeout=_QUERY_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    sizes = [int(line) for line in done.stdout.split() if line.isdecimal()]
    return max(sizes) * MIB if sizes and done.returncode == 0 else None
