"""llama.cpp's log: our own callback, and the buffer sizes that only the log tells."""

from __future__ import annotations

import ctypes
import logging
import re
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import llama_cpp.llama_cpp as C

from homespec.status import ModelMemory
from homespec.units import MIB

logger = logging.getLogger("homespec.llama")

_DEBUG, _INFO, _WARN, _ERROR, _CONTINUED = 1, 2, 3, 4, 5
# llama_cpp/_logger.py maps an older order of levels, which shows errors as debug lines.
_LEVELS = {_INFO: logging.DEBUG, _WARN: logging.INFO, _ERROR: logging.WARNING}
# The weaker words also occur in lines of information, such as `rope_finetuned = unknown`.
_FAILURES = tuple(re.compile(words, re.IGNORECASE) for words in ("error|failed", "unknown|missing|invalid|unsupported"))
_BUFFER = re.compile(r"(model|KV|RS|compute|output) buffer size\s*=\s*([\d.]+) MiB")


class NativeLog:
    """Receives every line of llama.cpp and ggml, from any thread.

    What the library calls information is detail for us, so each level is passed on one step lower. Its debug lines
    (several hundred per context) are dropped.
    """

    def __init__(self) -> None:
        self._captures: dict[int, list[str]] = {}
        self._recent: deque[str] = deque(maxlen=64)
        self._level = _DEBUG
        # Kept: ctypes does not hold a reference to a callback that C holds.
        self._callback = C.llama_log_callback(self._on_line)

    def install(self) -> None:
        C.llama_log_set(self._callback, ctypes.c_void_p(0))

    @contextmanager
    def capture(self) -> Iterator[list[str]]:
        """Collect the lines that the calling thread causes."""
        lines: list[str] = []
        self._captures[threading.get_ident()] = lines
        try:
            yield lines
        finally:
            del self._captures[threading.get_ident()]

    def recent(self) -> list[str]:
        return list(self._recent)

    def _on_line(self, level: int, text: bytes, _user_data: object) -> None:
        if level != _CONTINUED:
            self._level = level
        if self._level == _DEBUG:
            return
        line = text.decode(errors="replace").rstrip()
        if not line.strip("."):
            return
        self._recent.append(line)
        if (lines := self._captures.get(threading.get_ident())) is not None:
            lines.append(line)
        logger.log(_LEVELS.get(self._level, logging.DEBUG), line)


def failure_in(lines: Iterable[str]) -> str | None:
    """The first line that names a failure, without the function names in front."""
    candidates = list(lines)
    for words in _FAILURES:
        for line in candidates:
            if words.search(line):
                return re.sub(r"^(\w+: )+", "", line).strip()
    return None


def memory_of(lines: Iterable[str]) -> ModelMemory:
    """Sum the buffer lines of one load; a line may repeat per device."""
    sizes = dict.fromkeys(("model", "KV", "RS", "compute", "output"), 0.0)
    for line in lines:
        if found := _BUFFER.search(line):
            sizes[found[1]] += float(found[2])
    return ModelMemory(
        weights_bytes=int(sizes["model"] * MIB),
        kv_bytes=int((sizes["KV"] + sizes["RS"]) * MIB),
        compute_bytes=int((sizes["compute"] + sizes["output"]) * MIB),
    )


native_log = NativeLog()
