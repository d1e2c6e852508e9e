"""llama.cpp's log: our own callback, and the buffer sizes that only the log tells."""

from __future__ import annotations

import ctypes
import logging
import re
import threading
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from homespec.engine.llama.bindings import C
from homespec.status import ModelMemory
from homespec.units import MIB

logger = logging.getLogger("homespec.llama")

_DEBUG, _INFO, _WARN, _ERROR, _CONTINUED = 1, 2, 3, 4, 5
# llama_cpp/_logger.py maps an older order of levels, which shows errors as debug lines.
_LEVELS = {_INFO: logging.DEBUG, _WARN: logging.INFO, _ERROR: logging.WARNING}
# The weaker words also occur in lines of information, such as `rope_finetuned = unknown`.
_FAILURES = tuple(re.compile(words, re.IGNORECASE) for words in ("error|failed", "unknown|missing|invalid|unsupported"))
_BUFFER = re.compile(r"(\S*)\s+(model|KV|RS|compute|output) buffer size\s*=\s*([\d.]+) MiB")


class NativeLog:
    """Receives every line of llama.cpp and ggml, from any thread.

    What the library calls information is detail for us, so each level is passed on one step lower. Its debug lines
    (several hundred per context) are dropped.
    """

    def __init__(self) -> None:
        self._captures: dict[int, list[str]] = {}
        self._recent: deque[str] = deque(maxlen=64)
        self._level = _DEBUG
        self._keep_debug = False
        # Kept: ctypes does not hold a reference to a callback that C holds.
        self._callback = C.llama_log_callback(self._on_line)

    def install(self) -> None:
        C.llama_log_set(self._callback, ctypes.c_void_p(0))

    @contextmanager
    def capture(self, *, debug: bool = False) -> Iterator[list[str]]:
        """Collect the lines that the calling thread causes; with `debug`, those that are dropped otherwise too."""
        self.install()
        lines: list[str] = []
        self._captures[threading.get_ident()] = lines
        self._keep_debug = debug
        try:
            yield lines
        finally:
            self._keep_debug = False
            del self._captures[threading.get_ident()]

    def recent(self) -> list[str]:
        return list(self._recent)

    def _on_line(self, level: int, text: bytes, _user_data: object) -> None:
        if level != _CONTINUED:
            self._level = level
        if self._level == _DEBUG and not self._keep_debug:
            return
        line = text.decode(errors="replace").rstrip()
        if not line.strip("."):
            return
        if (lines := self._captures.get(threading.get_ident())) is not None:
            lines.append(line)
        if self._level == _DEBUG:
            return
        self._recent.append(line)
        logger.log(_LEVELS.get(self._level, logging.DEBUG), line)


def failure_in(lines: Iterable[str]) -> str | None:
    """The first line that names a failure, without the function names in front."""
    candidates = list(lines)
    for words in _FAILURES:
        for line in candidates:
            if words.search(line):
                return re.sub(r"^(\w+: )+", "", line).strip()
    return None


def buffers_in(lines: Iterable[str]) -> Iterator[tuple[str, str, int]]:
    """Name, kind (model, KV, RS, compute, output) and bytes of every buffer that the lines tell of."""
    for line in lines:
        # A dry run has thousands of lines, and a search that starts with any word is slow.
        if "buffer size" in line and (found := _BUFFER.search(line)):
            yield found[1], found[2], round(float(found[3]) * MIB)


def memory_of(lines: Iterable[str], devices: Collection[str] = ()) -> ModelMemory:
    """Sum the buffer lines of one load, by device.

    Buffers are named after their device (`CUDA0`, `CUDA0_Split`); all others (`CPU_Mapped`, `CPU_REPACK`, `CUDA_Host`)
    lie in host memory.
    """
    by_device: dict[str, ModelMemory] = {}
    for buffer, kind, size in buffers_in(lines):
        owner = next((name for name in devices if buffer == name or buffer.startswith(f"{name}_")), "CPU")
        by_device[owner] = by_device.get(owner, ModelMemory()) + _part(kind, size)
    return replace(sum(by_device.values(), ModelMemory()), by_device=by_device)


def _part(kind: str, size: int) -> ModelMemory:
    if kind == "model":
        return ModelMemory(weights_bytes=size)
    return ModelMemory(kv_bytes=size) if kind in ("KV", "RS") else ModelMemory(compute_bytes=size)


native_log = NativeLog()
