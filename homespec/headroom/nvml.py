"""NVIDIA's library, in a process of its own: `python -m homespec.headroom.nvml`.

A wedged driver never returns from a call and may hold the process in the kernel, where no signal reaches it. So the
daemon asks this process over a pipe and gives it up when it does not answer. One line in, a JSON list of PCI addresses,
or null for every card; one line out, a JSON object with a reading for each. It ends when the library cannot be started:
a driver that was updated or loaded meanwhile needs a fresh process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import pynvml

from homespec.headroom.readings import CardReading
from homespec.parent import die_with_parent

_SENTINELS = (0, 2**64 - 1)
"""Totals by which some platforms say that they do not know."""


def start() -> str | None:
    """Start NVML; the reason when it cannot be."""
    if not hasattr(pynvml, "nvmlMemory_v2"):
        return f"module pynvml at {pynvml.__file__} is not nvidia-ml-py; uninstall the package it belongs to"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        remedy = "; reboot, or reload the driver" if _code(error) == pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH else ""
        return f"NVML cannot be started: {error}{remedy}"
    return None


def read_card(address: str) -> CardReading:
    """Memory of the card at a PCI address. Faults of one card leave the others alone."""
    return _read(address, lambda: pynvml.nvmlDeviceGetHandleByPciBusId(address.encode()))


def read_all() -> dict[str, CardReading]:
    """The same of every card, by its number."""
    try:
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        return {}
    return {
        str(index): _read(f"card {index}", partial(pynvml.nvmlDeviceGetHandleByIndex, index)) for index in range(count)
    }


def _read(name: str, find: Callable[[], object]) -> CardReading:
    try:
        total, free, source = _memory(find())
    except pynvml.NVMLError as error:
        supported = _code(error) != pynvml.NVML_ERROR_NOT_SUPPORTED
        return CardReading(None, None, f"NVML on {name}: {error}", supported, _is_lost(_code(error)))
    if total in _SENTINELS or free > total:
        return CardReading.unknown(f"NVML on {name}: no usable numbers ({free} of {total} bytes free)")
    return CardReading(total, free, source)


def _memory(handle: object) -> tuple[int, int, str]:
    """Total and free bytes. The second version tells what the driver keeps for itself, which is nobody's to have; old
    drivers lack it and count that as used.
    """
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
        return memory.total - memory.reserved, memory.free, "NVML v2"
    except pynvml.NVMLError as error:
        if _code(error) not in (pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH):
            raise
    memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
    return memory.total, memory.free, "NVML v1"


def _is_lost(code: int) -> bool:
    """What becomes of a card after a suspend, a reset, an unplugging."""
    return code in (
        pynvml.NVML_ERROR_GPU_IS_LOST,
        pynvml.NVML_ERROR_RESET_REQUIRED,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_UNKNOWN,
    )


def _code(error: pynvml.NVMLError) -> int:
    return int(error.value)


def main() -> None:
    die_with_parent()
    if reason := start():
        print(json.dumps({"error": reason}), flush=True)
        return
    for line in sys.stdin:
        asked = json.loads(line)
        found = read_all() if asked is None else {address: read_card(address) for address in asked}
        print(json.dumps({name: asdict(reading) for name, reading in found.items()}), flush=True)


if __name__ == "__main__":
    main()
