from __future__ import annotations

import ctypes

import pytest

from homespec.engine.llama.library import EXTENSIONS, Library, Symbol, are_for_cpu_only, bind, library
from homespec.engine.llama.log import failure_in, memory_of
from homespec.errors import MissingSymbol
from homespec.units import MIB

pytestmark = pytest.mark.real


def test_every_function_of_the_extension_header_is_found() -> None:
    assert library().missing == ()
    for name in EXTENSIONS:
        function = library().extension(name)
        assert function.argtypes is not None  # type: ignore[attr-defined]


def test_the_library_is_started_once() -> None:
    assert library() is library()


def test_a_missing_function_is_told_with_the_names_that_were_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Symbol("llama_gone", "_Z10llama_gonev", "?llama_gone@@YAXXZ", (), None)
    monkeypatch.setitem(EXTENSIONS, "llama_gone", gone)
    native = Library()
    assert native.missing == ("llama_gone",)
    with pytest.raises(MissingSymbol, match=r"llama_gone, _Z10llama_gonev, \?llama_gone@@YAXXZ"):
        native.extension("llama_gone")


def test_names_are_tried_in_order_and_the_types_are_set() -> None:
    libc = ctypes.CDLL(None)
    found = bind(libc, Symbol("no_such_function", "strlen", None, (ctypes.c_char_p,), ctypes.c_size_t))
    assert found is not None
    assert found(b"four") == 4
    assert bind(libc, Symbol("no_such_function", "neither_this", None, (), None)) is None


def test_the_reason_of_a_failure_is_found_among_lines_of_information() -> None:
    lines = [
        "print_info: rope_finetuned        = unknown",
        "llama_model_load: error loading model: check_tensor_dims: tensor 'blk.0.attn_q.weight' not found",
        "llama_model_load_from_file_impl: failed to load model",
    ]
    assert failure_in(lines) == "error loading model: check_tensor_dims: tensor 'blk.0.attn_q.weight' not found"
    assert failure_in(["gguf_init: invalid magic characters: 'vers'"]) == "invalid magic characters: 'vers'"
    assert failure_in(["load: all is well"]) is None


def test_buffer_sizes_are_summed_over_devices_and_kinds() -> None:
    memory = memory_of(
        [
            "load_tensors:   CPU_Mapped model buffer size =    93.80 MiB",
            "load_tensors:        CUDA0 model buffer size =     6.20 MiB",
            "llama_kv_cache:        CPU KV buffer size =    22.50 MiB",
            "llama_memory_recurrent: CPU RS buffer size =     1.50 MiB",
            "llama_context:        CPU  output buffer size =     0.50 MiB",
            "sched_reserve:        CPU compute buffer size =    10.00 MiB",
            "something else = 5.00 MiB",
        ]
    )
    assert memory.weights_bytes == 100 * MIB
    assert memory.kv_bytes == 24 * MIB
    assert memory.compute_bytes == int(10.5 * MIB)
    assert memory.total_bytes == memory.weights_bytes + memory.kv_bytes + memory.compute_bytes


def test_buffers_are_put_down_to_the_device_that_they_are_named_after() -> None:
    memory = memory_of(
        [
            "load_tensors:   CPU_Mapped model buffer size =    90.00 MiB",
            "load_tensors:   CPU_REPACK model buffer size =     4.00 MiB",
            "load_tensors:        CUDA0 model buffer size =     6.00 MiB",
            "load_tensors:  CUDA1_Split model buffer size =     7.00 MiB",
            "load_tensors:       CUDA10 model buffer size =     8.00 MiB",
            "llama_context:  CUDA_Host  output buffer size =     0.50 MiB",
            "sched_reserve:      CUDA1 compute buffer size =    10.00 MiB",
        ],
        ["CUDA0", "CUDA1", "CUDA10"],
    )
    weights = {name: part.weights_bytes / MIB for name, part in memory.by_device.items()}
    assert weights == {"CPU": 94, "CUDA0": 6, "CUDA1": 7, "CUDA10": 8}
    assert memory.on("CPU").compute_bytes == MIB // 2
    assert memory.on("CUDA1").compute_bytes == 10 * MIB
    assert memory.on("CUDA7").total_bytes == 0
    assert sum(part.total_bytes for part in memory.by_device.values()) == memory.total_bytes


def test_a_build_without_devices_has_none_to_tell_of() -> None:
    assert tuple(device.name for device in library().device_memory()) == library().offload_devices()


@pytest.mark.parametrize(
    ("backends", "only_cpu"),
    [
        ("base cpu", True),
        ("base cpu-haswell cpu-x64 blas", True),
        ("base cpu cuda", False),
        ("base cpu vulkan", False),
        ("base cpu metal", False),
        ("base cpu nextyear", False),
        ("base", False),
        ("", False),
    ],
)
def test_a_build_without_another_backend_finds_no_device_later(backends: str, only_cpu: bool) -> None:
    assert are_for_cpu_only(f"libggml-{name}.so.0.25" for name in backends.split()) is only_cpu
