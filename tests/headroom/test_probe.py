"""Readings of memory: a number, or None."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from homespec.headroom.probe import HostMemory, host_memory, resident_bytes


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
