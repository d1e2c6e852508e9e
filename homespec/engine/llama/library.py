"""libllama itself: start-up, build facts, and the functions that llama-cpp-python does not bind.

The functions of llama-ext.h are exported under their C++ names only. Each is looked up by its plain name, then by the
Itanium name (Linux, macOS), then by the MSVC one; what is missing is reported, and only its drafters are lost.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from homespec.engine.llama.bindings import VERSION, C
from homespec.engine.llama.log import native_log
from homespec.errors import MissingSymbol
from homespec.status import DeviceMemory

_FLOATS = ctypes.c_void_p
"""A float*, as its address: ctypes takes a tenth of a millisecond to make a POINTER."""
_CONTEXT = ctypes.c_void_p
_MODEL = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function of llama-ext.h and the names it may be exported under."""

    name: str
    itanium: str
    msvc: str | None
    argtypes: tuple[Any, ...]
    restype: Any

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in (self.name, self.itanium, self.msvc) if name)


def _symbol(name: str, suffix: str, argtypes: tuple[Any, ...], restype: Any, msvc: str | None = None) -> Symbol:
    return Symbol(name, f"_Z{len(name)}{name}{suffix}", msvc, argtypes, restype)


EXTENSIONS: dict[str, Symbol] = {
    symbol.name: symbol
    for symbol in (
        _symbol(
            "llama_set_embeddings_layer_inp",
            "P13llama_contextjb",
            (_CONTEXT, ctypes.c_uint32, ctypes.c_bool),
            None,
            "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z",
        ),
        _symbol(
            "llama_get_embeddings_layer_inp",
            "P13llama_contextj",
            (_CONTEXT, ctypes.c_uint32),
            _FLOATS,
            "?llama_get_embeddings_layer_inp@@YAPEAMPEAUllama_context@@I@Z",
        ),
        _symbol(
            "llama_set_embeddings_nextn",
            "P13llama_contextbb",
            (_CONTEXT, ctypes.c_bool, ctypes.c_bool),
            None,
            "?llama_set_embeddings_nextn@@YAXPEAUllama_context@@_N1@Z",
        ),
        _symbol("llama_get_embeddings_nextn", "P13llama_context", (_CONTEXT,), _FLOATS),
        _symbol("llama_get_embeddings_nextn_ith", "P13llama_contexti", (_CONTEXT, ctypes.c_int32), _FLOATS),
        _symbol(
            "llama_set_nextn_layer_offset",
            "P13llama_contexti",
            (_CONTEXT, ctypes.c_int32),
            None,
            "?llama_set_nextn_layer_offset@@YAXPEAUllama_context@@H@Z",
        ),
        _symbol("llama_get_ctx_other", "P13llama_context", (_CONTEXT,), _CONTEXT),
        _symbol(
            "llama_model_target_layer_ids",
            "PK11llama_model",
            (_MODEL,),
            ctypes.POINTER(ctypes.c_int32),
            "?llama_model_target_layer_ids@@YAPEBHPEBUllama_model@@@Z",
        ),
        _symbol(
            "llama_model_target_layer_ids_n",
            "PK11llama_model",
            (_MODEL,),
            ctypes.c_uint32,
            "?llama_model_target_layer_ids_n@@YAIPEBUllama_model@@@Z",
        ),
        _symbol("llama_model_dflash_selector_top_k", "PK11llama_model", (_MODEL,), ctypes.c_int32),
        _symbol("llama_model_n_devices", "PK11llama_model", (_MODEL,), ctypes.c_int32),
        _symbol("llama_model_get_device", "PK11llama_modeli", (_MODEL, ctypes.c_int), ctypes.c_void_p),
    )
}

# Plain C functions of ggml that llama-cpp-python leaves out; found through libllama's own dependencies.
_GGML: dict[str, tuple[tuple[Any, ...], Any]] = {
    "ggml_backend_dev_count": ((), ctypes.c_size_t),
    "ggml_backend_dev_get": ((ctypes.c_size_t,), ctypes.c_void_p),
    "ggml_backend_dev_name": ((ctypes.c_void_p,), ctypes.c_char_p),
    "ggml_backend_dev_description": ((ctypes.c_void_p,), ctypes.c_char_p),
    "ggml_backend_dev_type": ((ctypes.c_void_p,), ctypes.c_int),
    "ggml_backend_dev_get_props": ((ctypes.c_void_p, ctypes.c_void_p), None),
}

_CPU_DEVICE_TYPE = 0
_INTEGRATED_DEVICE_TYPE = 2
_ACCELERATOR_DEVICE_TYPE = 3
_HOST_BACKENDS = {"base", "blas", "cpu"}
"""Parts of ggml that bring no device which layers could go to."""


class _Props(ctypes.Structure):
    """ggml_backend_dev_props of ggml-backend.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("description", ctypes.c_char_p),
        ("memory_free", ctypes.c_size_t),
        ("memory_total", ctypes.c_size_t),
        ("type", ctypes.c_int),
        ("device_id", ctypes.c_char_p),
        ("capabilities", ctypes.c_bool * 5),
    )


def bind(library: Any, symbol: Symbol) -> Callable[..., Any] | None:
    """The function under the first of its names that `library` exports, or None."""
    for name in symbol.names:
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes = list(symbol.argtypes)
            function.restype = symbol.restype
            return function  # type: ignore[no-any-return]
    return None


class Library:
    """libllama, started once per process. Reach it through `library()`."""

    def __init__(self) -> None:
        native_log.install()
        C.llama_backend_init()
        self.version: str = VERSION
        self._extensions = {name: bind(C._lib, symbol) for name, symbol in EXTENSIONS.items()}
        for name, (argtypes, restype) in _GGML.items():
            function = getattr(C._lib, name)
            function.argtypes, function.restype = list(argtypes), restype

    @property
    def missing(self) -> tuple[str, ...]:
        """Extension functions that this build does not export."""
        return tuple(name for name, function in self._extensions.items() if function is None)

    def extension(self, name: str) -> Callable[..., Any]:
        """A function of llama-ext.h; raises MissingSymbol with the names that were tried."""
        function = self._extensions[name]
        if function is None:
            tried = ", ".join(EXTENSIONS[name].names)
            raise MissingSymbol(f"llama-cpp-python {self.version} exports none of {tried}; install the pinned version")
        return function

    def features(self) -> tuple[str, ...]:
        """What the build uses of the processor and of other libraries: AVX2, FMA, OPENMP, REPACK, …"""
        return tuple(re.findall(r"(\w+) = 1\b", _text(C.llama_print_system_info())))

    @property
    def is_for_cpu_only(self) -> bool:
        """Whether no other backend of ggml's lies beside it, whose device may be found later; False where that cannot
        be told, as in a build that is one file.
        """
        return are_for_cpu_only(file.name for file in Path(C._lib._name).parent.glob("libggml-*"))

    def offload_devices(self) -> tuple[str, ...]:
        """Names of the devices that can hold layers (CUDA0, Metal, …); empty on a CPU build."""
        return tuple(_text(C._lib.ggml_backend_dev_name(device)) for device in self._offload_handles())

    def device_memory(self) -> tuple[DeviceMemory, ...]:
        """The same devices with their memory at this moment. Wakes a device that sleeps."""
        return tuple(_device_memory(device) for device in self._offload_handles())

    def _offload_handles(self) -> list[int]:
        lib = C._lib
        devices = [lib.ggml_backend_dev_get(index) for index in range(lib.ggml_backend_dev_count())]
        on_host = (_CPU_DEVICE_TYPE, _ACCELERATOR_DEVICE_TYPE)
        return [device for device in devices if lib.ggml_backend_dev_type(device) not in on_host]


def are_for_cpu_only(files: Iterable[str]) -> bool:
    """Of the names of ggml's parts: `libggml-cpu.so`, `libggml-cpu-haswell.so`, `libggml-cuda.so`, …"""
    backends = {re.split(r"[-.]", name.removeprefix("libggml-"))[0] for name in files}
    return "cpu" in backends and backends <= _HOST_BACKENDS


def _device_memory(device: int) -> DeviceMemory:
    props = _Props()
    C._lib.ggml_backend_dev_get_props(device, ctypes.byref(props))
    known = props.memory_total > 0
    return DeviceMemory(
        name=_text(props.name),
        description=_text(props.description),
        device_id=_text(props.device_id) or None,
        integrated=props.type == _INTEGRATED_DEVICE_TYPE,
        total_bytes=props.memory_total if known else None,
        free_bytes=props.memory_free if known else None,
    )


def _text(name: bytes | None) -> str:
    return (name or b"").decode(errors="replace")


@cache
def library() -> Library:
    """The library, loaded on first use."""
    return Library()
