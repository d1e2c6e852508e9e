"""How much of a mapped model is in memory (mincore)."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from collections.abc import Sequence
from pathlib import Path

WINDOWS = 64
"""Stretches that are looked at, spread evenly over the model: the cost does not grow with it."""
WINDOW_BYTES = 256 * 1024


def can_tell(path: Path) -> bool:
    """Linux tells the truth only to those who own the file or may write to it; to all others every page is there
    (mm/mincore.c, can_do_mincore).
    """
    try:
        owner = path.stat().st_uid
    except OSError:
        return False
    return sys.platform == "linux" and (os.geteuid() in (0, owner) or os.access(path, os.W_OK))


class MappedModel:
    """All files of a model. One that cannot be looked at makes the whole unknown."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Raises OSError when one cannot be opened, ValueError when it is empty."""
        windows = max(1, WINDOWS // len(paths))
        self._files = [MappedFile(path, windows) for path in paths]

    def resident_share(self) -> float | None:
        """Share of the model in memory, 0 to 1, by sample; None where the system does not tell."""
        resident = 0.0
        for file in self._files:
            share = file.resident_share()
            if share is None:
                return None
            resident += share * file.size_bytes
        return resident / sum(file.size_bytes for file in self._files)


class MappedFile:
    """A file whose pages can be looked at without reading them."""

    def __init__(self, path: Path, windows: int = WINDOWS) -> None:
        """Raises OSError when it cannot be opened, ValueError when it is empty."""
        self._windows = windows
        with path.open("rb") as file:
            # A private copy, because ctypes takes the address of writable buffers only; nothing is ever written.
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self.size_bytes = len(self._map)

    def resident_share(self) -> float | None:
        """Share of the pages in memory, 0 to 1, by sample; None where the system does not tell."""
        anchor = ctypes.c_char.from_buffer(self._map)
        try:
            return self._sample(ctypes.addressof(anchor))
        finally:
            del anchor  # the mapping stays open while it is referred to

    def _sample(self, address: int) -> float | None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
        pages = ctypes.create_string_buffer(WINDOW_BYTES // mmap.PAGESIZE)
        seen = resident = 0
        for start in self._starts():
            length = min(WINDOW_BYTES, self.size_bytes - start)
            if libc.mincore(address + start, length, pages) != 0:
                return None
            num_pages = -(-length // mmap.PAGESIZE)
            seen += num_pages
            resident += pages.raw[:num_pages].count(1)
        return resident / seen

    def _starts(self) -> list[int]:
        """Page-aligned offsets of the windows, without overlap."""
        count = -(-self.size_bytes // WINDOW_BYTES)
        num = min(count, self._windows)
        picked = (index * count // num for index in range(num))
        return [index * WINDOW_BYTES for index in picked]
