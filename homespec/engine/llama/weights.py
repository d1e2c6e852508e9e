"""Where the weights of a model lie and how much they take there, from its header and from what a dry load logs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum

from homespec.engine.llama.bindings import C
from homespec.engine.llama.gguf import GgufHeader, TensorInfo, open_header
from homespec.engine.llama.model import Model
from homespec.footprint import HOST
from homespec.split import parts

_LAYER = re.compile(r"load_tensors: layer\s+(\d+) assigned to device ([^,\s]+)")
_BLOCK = re.compile(r"blk\.(\d+)\.")
# Tensors that are looked up by row: they stay in the memory of the box (llama-arch.cpp, LLM_TENSOR_LAYER_INPUT).
_INPUTS = ("token_embd", "token_types", "position_embd", "per_layer_token_embd")

# ggml types that the CPU backend copies into a layout of its own, by instruction set (ggml-cpu/repack.cpp).
_Q4_0, _Q8_0, _Q2_K, _Q4_K, _Q5_K, _Q6_K, _IQ4_NL, _MXFP4 = 2, 8, 10, 12, 13, 14, 20, 39
_REPACKED = {
    "AVX2 = 1": {_Q4_0, _Q4_K, _IQ4_NL, _MXFP4},
    "AVX512 = 1": {_Q2_K},
    "NEON = 1": {_Q4_0, _Q4_K, _Q5_K, _Q6_K, _Q8_0, _IQ4_NL, _MXFP4},
}


class Part(StrEnum):
    """What of a file is loaded."""

    TRUNK = "trunk"
    """A plain load leaves out the heads that predict further tokens."""
    HEADS = "heads"
    """Those alone, which `load_mtp` adds."""
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes per device, and what a mapped file holds beyond them."""

    by_device: Mapping[str, int]
    reclaimable_bytes: int


def weights_of(model: Model, *, mmap: bool, part: Part = Part.TRUNK) -> Weights:
    """Weights of a model that was loaded for its sizes; see Footprint for what is reclaimable."""
    layers = _layers(model)
    output = output_device(model)
    repacked = _repacked_types() if any("CPU_REPACK" in line for line in model.log) else frozenset()
    sizes: Counter[str] = Counter()
    reclaimable = 0
    with ExitStack() as opened:
        files = tensors_of([opened.enter_context(open_header(path)) for path in parts(model.path)], part)
    is_tied = not any(tensor.name == "output.weight" for loaded in files for tensor in loaded)
    for loaded in files:
        mapped = []
        for tensor in loaded:
            device = _place(tensor.name, layers, output)
            sizes[device] += tensor.size_bytes
            is_output = is_tied and tensor.name == "token_embd.weight"
            if is_output and (output != HOST or tensor.type in repacked):
                sizes[output] += tensor.size_bytes
            if device == HOST and (tensor.type not in repacked or tensor.name.startswith(_INPUTS)):
                mapped.append(tensor)
        if mmap and mapped:
            # llama.cpp maps one range that spans all of them; what lies between is read once at most.
            span = max(t.offset + t.size_bytes for t in mapped) - min(t.offset for t in mapped)
            reclaimable += span - sum(t.size_bytes for t in mapped)
    return Weights(sizes, reclaimable)


def _layers(model: Model) -> Mapping[int, str]:
    """Device of each layer, the output layer last."""
    return {int(layer): device_of(name) for layer, name in _LAYER.findall("\n".join(model.log))}


def output_device(model: Model) -> str:
    """Where the last matrix lies; on the device as soon as any layer is."""
    layers = _layers(model)
    return layers[max(layers)] if layers else HOST


def _place(name: str, layers: Mapping[int, str], output: str) -> str:
    if name.startswith(_INPUTS):
        return HOST
    block = _BLOCK.match(name)
    return layers.get(int(block[1]), HOST) if block else output


def _trunk_layers(header: GgufHeader) -> int | None:
    """Layers before the heads of multi-token prediction; None where the file has none of those."""
    architecture = header.architecture
    extra = header.get(f"{architecture}.nextn_predict_layers")
    count = header.get(f"{architecture}.block_count")
    return count - extra if isinstance(extra, int) and isinstance(count, int) and extra else None


def tensors_of(headers: Sequence[GgufHeader], part: Part) -> list[list[TensorInfo]]:
    """The tensors that a load makes use of, file by file; the first of them says where the trunk ends."""
    trunk = _trunk_layers(headers[0])
    return [[tensor for tensor in header.tensors() if _is_in(tensor, part, trunk)] for header in headers]


def _is_in(tensor: TensorInfo, part: Part, trunk: int | None) -> bool:
    block = _BLOCK.match(tensor.name)
    is_head = block is not None and trunk is not None and int(block[1]) >= trunk
    return part is Part.ALL or is_head == (part is Part.HEADS)


def device_of(buffer: str) -> str:
    """The device that a buffer type belongs to: `CPU_Mapped` and `CUDA_Host` lie in the memory of the box."""
    if buffer.startswith("CPU") or buffer.endswith("_Host"):
        return HOST
    return re.sub(r"_(Mapped|Private|Split)$", "", buffer)


def _repacked_types() -> frozenset[int]:
    features = C.llama_print_system_info().decode(errors="replace")
    return frozenset().union(*(types for feature, types in _REPACKED.items() if feature in features))
