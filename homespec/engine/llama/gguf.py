"""The header of a GGUF file, read by ggml's own C functions, and the checks that come before a load.

Python readers take seconds on a large vocabulary; the C reader takes milliseconds and applies ggml's own limits.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homespec.engine.llama.bindings import C
from homespec.engine.llama.log import failure_in, native_log
from homespec.errors import ModelCorrupt, ModelNotFound
from homespec.units import format_bytes

Value = int | float | bool | str | list[Any]

_STRING, _ARRAY = 8, 9
_SCALARS: dict[int, tuple[str, Any]] = {
    0: ("u8", ctypes.c_uint8),
    1: ("i8", ctypes.c_int8),
    2: ("u16", ctypes.c_uint16),
    3: ("i16", ctypes.c_int16),
    4: ("u32", ctypes.c_uint32),
    5: ("i32", ctypes.c_int32),
    6: ("f32", ctypes.c_float),
    7: ("bool", ctypes.c_bool),
    10: ("u64", ctypes.c_uint64),
    11: ("i64", ctypes.c_int64),
    12: ("f64", ctypes.c_double),
}


class _InitParams(ctypes.Structure):
    _fields_ = (("no_alloc", ctypes.c_bool), ("ctx", ctypes.c_void_p))


@dataclass(frozen=True, slots=True)
class TensorInfo:
    name: str
    type: int
    """ggml_type."""
    offset: int
    """From the start of the data section."""
    size_bytes: int

    @property
    def num_elements(self) -> int:
        per_block = _function("ggml_blck_size", ctypes.c_int64, ctypes.c_int)(self.type)
        block_bytes = _function("ggml_type_size", ctypes.c_size_t, ctypes.c_int)(self.type)
        return int(self.size_bytes // block_bytes * per_block)


def _function(name: str, restype: Any, *argtypes: Any) -> Any:
    function = getattr(C._lib, name if name.startswith("ggml_") else f"gguf_{name}")
    function.restype, function.argtypes = restype, list(argtypes)
    return function


class GgufHeader:
    """An open header. Use `open_header`; arrays are read on demand."""

    def __init__(self, handle: int, path: Path) -> None:
        self._handle = ctypes.c_void_p(handle)
        self.path = path

    def keys(self) -> list[str]:
        count = _function("get_n_kv", ctypes.c_int64, ctypes.c_void_p)(self._handle)
        key = _function("get_key", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)
        return [key(self._handle, index).decode(errors="replace") for index in range(count)]

    def get(self, key: str) -> Value | None:
        """Value of a metadata key, None when it is absent. Strings with invalid UTF-8 get replacement marks."""
        find = _function("find_key", ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p)
        index = find(self._handle, key.encode())
        if index < 0:
            return None
        kind = _function("get_kv_type", ctypes.c_int, ctypes.c_void_p, ctypes.c_int64)(self._handle, index)
        if kind == _STRING:
            text = _function("get_val_str", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int64)
            return str(text(self._handle, index).decode(errors="replace"))
        if kind == _ARRAY:
            return self._array(index)
        name, ctype = _SCALARS[kind]
        value: Value = _function(f"get_val_{name}", ctype, ctypes.c_void_p, ctypes.c_int64)(self._handle, index)
        return value

    def count(self, key: str) -> int | None:
        """Number of items of an array, without reading them; None when it is absent."""
        index = _function("find_key", ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p)(self._handle, key.encode())
        if index < 0:
            return None
        return int(_function("get_arr_n", ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int64)(self._handle, index))

    def tensors(self) -> Iterator[TensorInfo]:
        count = _function("get_n_tensors", ctypes.c_int64, ctypes.c_void_p)(self._handle)
        of_tensor = (ctypes.c_void_p, ctypes.c_int64)
        name = _function("get_tensor_name", ctypes.c_char_p, *of_tensor)
        kind = _function("get_tensor_type", ctypes.c_int, *of_tensor)
        offset = _function("get_tensor_offset", ctypes.c_size_t, *of_tensor)
        size = _function("get_tensor_size", ctypes.c_size_t, *of_tensor)
        for index in range(count):
            at = (self._handle, index)
            yield TensorInfo(name(*at).decode(errors="replace"), kind(*at), offset(*at), size(*at))

    @property
    def data_offset(self) -> int:
        return int(_function("get_data_offset", ctypes.c_size_t, ctypes.c_void_p)(self._handle))

    @property
    def architecture(self) -> str:
        return str(self.get("general.architecture") or "")

    def check_complete(self) -> None:
        """Raise ModelCorrupt unless every tensor ends inside the file."""
        have = self.path.stat().st_size
        last = max(self.tensors(), key=lambda tensor: tensor.offset + tensor.size_bytes, default=None)
        need = self.data_offset + (last.offset + last.size_bytes if last else 0)
        if last is not None and need > have:
            raise ModelCorrupt(
                f"{self.path} is cut short: its last tensor {last.name!r} ends at byte {need}, the file has {have} "
                f"({format_bytes(need - have)} missing); download it again"
            )

    def close(self) -> None:
        _function("free", None, ctypes.c_void_p)(self._handle)

    def _array(self, index: int) -> list[Any]:
        of_key = (ctypes.c_void_p, ctypes.c_int64)
        count = _function("get_arr_n", ctypes.c_size_t, *of_key)(self._handle, index)
        kind = _function("get_arr_type", ctypes.c_int, *of_key)(self._handle, index)
        if kind == _STRING:
            text = _function("get_arr_str", ctypes.c_char_p, *of_key, ctypes.c_size_t)
            return [text(self._handle, index, item).decode(errors="replace") for item in range(count)]
        data = _function("get_arr_data", ctypes.c_void_p, *of_key)(self._handle, index)
        return list((_SCALARS[kind][1] * count).from_address(data)) if count else []


@contextmanager
def open_header(path: Path) -> Iterator[GgufHeader]:
    """Open the header of a file. Raises ModelNotFound, or ModelCorrupt with ggml's reason when it does not parse."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise ModelNotFound(f"{path} cannot be read: {error.strerror}; check the path and its permissions") from error
    init = _function("init_from_file", ctypes.c_void_p, ctypes.c_char_p, _InitParams)
    with native_log.capture() as lines:
        handle = init(bytes(path), _InitParams(True, None))
    if not handle:
        reason = failure_in(lines) or "the header does not parse"
        raise ModelCorrupt(f"{path} has a broken GGUF header: {reason}; download it again")
    header = GgufHeader(handle, path)
    try:
        yield header
    finally:
        header.close()
