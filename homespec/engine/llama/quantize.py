"""llama.cpp's own quantiser: a copy of a model with fewer bits or fewer layers."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from homespec.engine.llama.bindings import C
from homespec.engine.llama.library import library
from homespec.engine.llama.log import failure_in, native_log
from homespec.errors import DeriveError
from homespec.units import MIB

_TENSOR = re.compile(r"^\[\s*(\d+)/\s*(\d+)\]")
_SIZE = re.compile(r"quant size\s*=\s*([\d.]+) MiB")


def quantize(
    source: Path,
    destination: Path,
    *,
    quant: str | None,
    dropped_layers: Collection[int] = (),
    keys: Mapping[str, int | str] | None = None,
    n_threads: int = 1,
    dry_run: bool = False,
) -> int:
    """Write the copy; bytes of its tensors as llama.cpp reports them. Raises DeriveError with llama.cpp's reason.

    quant: name of a llama_ftype without its prefix; None keeps every tensor as it is. keys: metadata that differs from
    the source's; texts of at most 127 bytes, numbers from 0 to 2^32 - 1. dry_run: write nothing.
    """
    library()
    params = C.llama_model_quantize_default_params()
    params.nthread = n_threads
    params.allow_requantize = True
    params.dry_run = dry_run
    params.only_copy = quant is None
    if quant is not None:
        params.ftype = getattr(C, f"LLAMA_FTYPE_MOSTLY_{quant}")
    # llama.cpp reads until the first negative number.
    dropped = (ctypes.c_int32 * (len(dropped_layers) + 1))(*sorted(dropped_layers), -1)
    if dropped_layers:
        params.prune_layers = ctypes.cast(dropped, ctypes.POINTER(ctypes.c_int32))
    params.kv_overrides = _overrides(keys or {})
    with native_log.capture() as lines:
        failed = C.llama_model_quantize(bytes(source), bytes(destination), ctypes.byref(params))
    if failed:
        raise DeriveError(f"llama.cpp cannot make the copy: {failure_in(lines) or 'it gave no reason'}")
    return _size_bytes(lines)


def _overrides(keys: Mapping[str, int | str]) -> Any:
    """The array as llama.cpp takes it: the first empty key ends it."""
    array = (C.llama_model_kv_override * (len(keys) + 1))()
    for override, (key, value) in zip(array, keys.items(), strict=False):
        override.key = key.encode()
        if isinstance(value, str):
            override.tag, override.value.val_str = C.LLAMA_KV_OVERRIDE_TYPE_STR, value.encode()
        else:
            override.tag, override.value.val_i64 = C.LLAMA_KV_OVERRIDE_TYPE_INT, value
    return array


def share_done() -> float:
    """How far the running call has got, 0 to 1. For another thread than the one that made it."""
    for line in reversed(native_log.recent()):
        if found := _TENSOR.match(line):
            return int(found[1]) / int(found[2])
    return 0.0


def _size_bytes(lines: Iterable[str]) -> int:
    sizes = [float(found[1]) for line in lines if (found := _SIZE.search(line))]
    return int(sizes[-1] * MIB) if sizes else 0
