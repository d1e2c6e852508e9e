"""A loaded GGUF model: its weights, its vocabulary and its facts."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from homespec.engine.llama.bindings import C
from homespec.engine.llama.gguf import open_header
from homespec.engine.llama.library import library
from homespec.engine.llama.log import failure_in, memory_of, native_log
from homespec.engine.llama.vocab import Vocab
from homespec.errors import ModelUnsupported

Progress = Callable[[float], None]


class Load(StrEnum):
    """How much of a model is loaded."""

    WEIGHTS = "weights"
    SIZES = "sizes"
    """Everything but memory for weights and KV cache: contexts made from it tell sizes and cannot decode."""
    VOCABULARY = "vocabulary"


_REMEDIES = {
    "mmap failed": "Raise the memory that a process may map (ulimit -v), or set mmap = false",
    "alloc": "Free memory, or take a smaller model",
}
"""By what llama.cpp says; it says as little of its own errno as it can."""


class Model:
    """Weights in memory. Free every context made from it before `close`.

    Raises ModelNotFound when the file cannot be read, ModelCorrupt when it is broken, ModelUnsupported when llama.cpp
    cannot run it.
    """

    def __init__(
        self,
        path: Path,
        *,
        n_gpu_layers: int = -1,
        mmap: bool = True,
        progress: Progress | None = None,
        load_mtp: bool = False,
        wanted: Callable[[], bool] = lambda: True,
        load: Load = Load.WEIGHTS,
    ) -> None:
        """load_mtp: also the blocks that predict further tokens, which most runs have no use for. wanted: asked while
        it loads; once it says no, the load is given up as one that failed.
        """
        library()
        self.path = path
        self.load = load
        with open_header(path) as header:
            header.check_complete()
            self.architecture = header.architecture
        params = C.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        params.load_mode = C.LLAMA_LOAD_MODE_MMAP if mmap and load is Load.WEIGHTS else C.LLAMA_LOAD_MODE_NONE
        params.no_alloc = load is Load.SIZES
        params.vocab_only = load is Load.VOCABULARY
        params.load_mtp = load_mtp
        callback = C.llama_progress_callback(_keep_loading(progress, wanted))
        params.progress_callback = callback
        with native_log.capture(debug=load is Load.SIZES) as lines:
            self.handle = C.llama_model_load_from_file(bytes(path), params)
        if not self.handle:
            reason = failure_in(lines) or "llama.cpp gave no reason"
            raise ModelUnsupported(
                f"{path} cannot be loaded by llama-cpp-python {library().version}: {reason}; "
                f"architecture {self.architecture!r}. {_remedy(reason)}"
            )
        self.log = tuple(lines)
        self.memory = memory_of(lines, library().offload_devices())
        self.vocab = Vocab(self.handle)

    @property
    def n_ctx_train(self) -> int:
        return int(C.llama_model_n_ctx_train(self.handle))

    @property
    def n_embd(self) -> int:
        return int(C.llama_model_n_embd(self.handle))

    @property
    def n_embd_out(self) -> int:
        """Width of the states that it gives out; another than `n_embd` behind a dense output layer."""
        return int(C.llama_model_n_embd_out(self.handle))

    @property
    def n_layer(self) -> int:
        return int(C.llama_model_n_layer(self.handle))

    @property
    def query_heads_per_kv_head(self) -> int:
        """1 where attention has no KV heads of its own."""
        n_head_kv = int(C.llama_model_n_head_kv(self.handle))
        return int(C.llama_model_n_head(self.handle)) // n_head_kv if n_head_kv > 0 else 1

    @property
    def num_mtp_layers(self) -> int:
        """Blocks behind the trunk that predict further tokens; they may not be loaded."""
        return int(C.llama_model_n_layer_nextn(self.handle))

    @property
    def num_params(self) -> int:
        return int(C.llama_model_n_params(self.handle))

    @property
    def size_bytes(self) -> int:
        return int(C.llama_model_size(self.handle))

    @cached_property
    def n_swa(self) -> int:
        """Width of the sliding attention window; 0 without one."""
        return int(C.llama_model_n_swa(self.handle))

    @cached_property
    def is_recurrent(self) -> bool:
        """Whether its memory, or a part of it, is a running state, which cannot be cut like a list of keys."""
        return bool(C.llama_model_is_recurrent(self.handle) or C.llama_model_is_hybrid(self.handle))

    @property
    def has_encoder(self) -> bool:
        return bool(C.llama_model_has_encoder(self.handle))

    @property
    def description(self) -> str:
        """Architecture, parameters, quantisation: `llama 135M Q4_1`."""
        buffer = ctypes.create_string_buffer(256)
        C.llama_model_desc(self.handle, buffer, len(buffer))
        return with_counted_size(buffer.value.decode(errors="replace"), self.num_params)

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that the file carries."""
        template = C.llama_model_chat_template(self.handle, None)
        return template.decode(errors="replace") if template else None

    def close(self) -> None:
        if self.handle:
            C.llama_model_free(self.handle)
            self.handle = None


def with_counted_size(description: str, num_params: int) -> str:
    """llama.cpp guesses a size from the number of layers (256M for a model of 135M), so the parameters are counted.
    Names that say more than a size (`30B.A3B`, `8x7B`, `E2B`) stay.
    """
    architecture, size, rest = [*description.split(" ", 2), "", ""][:3]
    if not re.fullmatch(r"[\d.]+[MBT]|\?B", size):
        return description
    counted = f"{num_params / 1e9:.1f}B" if num_params >= 1e9 else f"{num_params / 1e6:.0f}M"
    return f"{architecture} {counted} {rest}".rstrip()


def _keep_loading(progress: Progress | None, wanted: Callable[[], bool]) -> Callable[[float, object], bool]:
    def report(value: float, _data: object) -> bool:
        if progress is not None:
            progress(value)
        return wanted()  # False cancels the load

    return report


def _remedy(reason: str) -> str:
    return next((remedy for part, remedy in _REMEDIES.items() if part in reason), "Use a model this build knows")
