"""How fast this box reads memory and multiplies, measured in a tenth of a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from homespec.footprint import Speeds
from homespec.units import MIB

_CHUNK_BYTES = 32 * MIB
"""That each thread reads: beyond the caches of a home box."""
_MAX_BYTES = 256 * MIB
"""That all of them read: making it takes longer than reading it."""
_WIDTH, _PRODUCTS = 64, 64
"""Matrices so small that a BLAS library multiplies them on the thread that asks: where other work runs, its own threads
wait for one another longer than they multiply."""
_REPEATS = 5


def measure_speeds(threads: int) -> Speeds:
    """Read memory and multiply matrices on `threads` threads at once; the best of a few repeats."""
    floats = min(_CHUNK_BYTES, _MAX_BYTES // threads) // np.dtype(np.float32).itemsize
    chunks = [np.ones(floats, np.float32) for _ in range(threads)]
    factors = np.ones((_PRODUCTS, _WIDTH, _WIDTH), np.float32)
    products = [np.empty_like(factors) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        reading_s = _best(lambda: list(pool.map(np.max, chunks)))
        multiplying_s = _best(lambda: list(pool.map(lambda out: np.matmul(factors, factors, out), products)))
    return Speeds(
        sum(chunk.nbytes for chunk in chunks) / reading_s, 2 * _WIDTH**3 * _PRODUCTS * threads / multiplying_s
    )


def _best(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
