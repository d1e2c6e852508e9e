"""How fast this box reads memory and multiplies, measured in a fifth of a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from homespec.units import MIB

_CHUNK_BYTES = 32 * MIB
"""Beyond the caches of a home box."""
_MATRIX = 512
_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Machine:
    """Speeds of the CPU side; a device's are not measured here."""

    read_bytes_per_s: float
    flops: float
    """Multiplications and additions of single precision per second."""


def measure_machine(threads: int) -> Machine:
    """Read memory and multiply matrices on `threads` threads; the best of a few repeats."""
    chunks = [np.ones(_CHUNK_BYTES // 4, np.float32) for _ in range(threads)]
    matrices = [np.ones((_MATRIX, _MATRIX), np.float32) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        reading_s = _best(lambda: list(pool.map(lambda chunk: chunk.max(), chunks)))
    multiplying_s = _best(lambda: [matrix @ matrix for matrix in matrices])
    return Machine(threads * _CHUNK_BYTES / reading_s, threads * 2 * _MATRIX**3 / multiplying_s)


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
