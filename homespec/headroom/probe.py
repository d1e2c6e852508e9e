"""Readings of memory. None where a value cannot be read, never a guess."""

from __future__ import annotations

from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class HostMemory:
    total_bytes: int | None
    available_bytes: int | None


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
