"""Measurements of earlier runs, on disk: the same model, library, machine and settings give the same ones."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from homespec.engine.llama.context import Context
from homespec.engine.llama.library import library
from homespec.fingerprint import fingerprint
from homespec.folders import cache_folder

logger = logging.getLogger("homespec.engine")

_MOST = 200

NUM_RUNS = 3
"""A busy machine spoils the timings of a start, and what looks slow is not tried again: so many starts take them."""


class Kept:
    """JSON values by key, in one file. Every failure to read or write it is harmless: it is measured again."""

    def __init__(self, name: str, folder: Path | None = None) -> None:
        # Without a home there is nothing to read, and writing fails with a reason.
        self._path = (folder or cache_folder() or Path(os.devnull)) / f"{name}.json"

    def get(self, key: str) -> Any:
        """None when there is nothing."""
        return self._read().get(key)

    def put(self, key: str, value: object) -> None:
        known = dict(list(self._read().items())[-_MOST:]) | {key: value}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(known), encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            logger.info("a measurement is not kept: %s: %s", self._path, error.strerror)

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return found if isinstance(found, dict) else {}
        return {}


def context_key(context: Context, *more: object) -> str:
    """Of a model in a context on this machine."""
    parts = (
        fingerprint(context.model.path),
        library().version,
        platform.machine(),
        _cpu_flags(),
        *library().offload_devices(),
        context.params,
        *more,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _cpu_flags() -> str:
    """What decides about kernels on Linux; elsewhere the processor's name has to do."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return ""
