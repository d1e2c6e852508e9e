"""Verdicts of earlier exactness probes, on disk: the same model, library, machine and settings give the same one."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import platformdirs

from homespec.engine.exactness import Verdict
from homespec.engine.llama.context import Context
from homespec.engine.llama.library import library

logger = logging.getLogger("homespec.engine")

_SAMPLE_BYTES = 1024 * 1024
_KEPT = 200


def fingerprint(path: Path) -> str:
    """Of a model file: its size, start and end; reading all of a large model would take longer than the probe."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_SAMPLE_BYTES))
        file.seek(max(0, size - _SAMPLE_BYTES))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


class Verdicts:
    """The cache. Every failure to read or write it is harmless: the probe is made again."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or platformdirs.user_cache_path("homespec")) / "exactness.json"

    def get(self, context: Context, *, pad_single: bool) -> Verdict | None:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            found = json.loads(self._path.read_text(encoding="utf-8")).get(_key(context, pad_single))
            return Verdict(**found) if found else None
        return None

    def put(self, context: Context, verdict: Verdict, *, pad_single: bool) -> None:
        known: dict[str, object] = {}
        with suppress(OSError, ValueError):
            known = json.loads(self._path.read_text(encoding="utf-8"))
        known = dict(list(known.items())[-_KEPT:]) | {_key(context, pad_single): asdict(verdict)}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(known), encoding="utf-8")
            temporary.replace(self._path)
        except OSError as error:
            logger.info("the exactness verdict is not kept: %s: %s", self._path, error.strerror)


def _key(context: Context, pad_single: bool) -> str:
    parts = (
        fingerprint(context.model.path),
        library().version,
        platform.machine(),
        _cpu_flags(),
        *library().offload_devices(),
        context.params,
        pad_single,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _cpu_flags() -> str:
    """What decides about kernels on Linux; elsewhere the processor's name has to do."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return ""
