"""A dry run tells what the real load then logs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from homespec.engine.llama import dry_run
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.gguf import open_header
from homespec.engine.llama.model import Load, Model
from homespec.engine.llama.weights import weights_of
from homespec.footprint import HOST, Footprint
from homespec.status import ModelMemory
from homespec.units import MIB
from tests.kits import footprint_kit
from tests.kits.models import Models

pytestmark = pytest.mark.real

LOG_STEP = MIB // 100
"""llama.cpp logs hundredths of a MiB, and there are a handful of lines."""


def dry(path: Path, params: ContextParams, *, mmap: bool = True) -> Footprint:
    model = Model(path, load=Load.SIZES)
    context = Context(model, params)
    try:
        return dry_run.footprint(context, mmap=mmap)
    finally:
        context.close()
        model.close()


def really(path: Path, params: ContextParams, *, mmap: bool = True) -> ModelMemory:
    model = Model(path, mmap=mmap)
    context = Context(model, params)
    try:
        return context.memory_with_model
    finally:
        context.close()
        model.close()


def agree(estimate: Footprint, logged: ModelMemory) -> None:
    expected = estimate.at_load
    assert expected.weights_bytes == pytest.approx(logged.weights_bytes, abs=4 * LOG_STEP)
    assert expected.kv_bytes == pytest.approx(logged.kv_bytes, abs=4 * LOG_STEP)
    assert expected.compute_bytes == pytest.approx(logged.compute_bytes, abs=4 * LOG_STEP)
    assert estimate.disagreement(logged) is None


@pytest.mark.parametrize(
    ("n_ctx", "kv_type", "slots", "n_batch"),
    [
        (512, "bf16", 1, 256),
        (4096, "q8_0", 4, 256),
        (8192, "bf16", 4, 512),
        (300, "f32", 2, 68),
        (2048, "q4_0", 16, 272),
    ],
)
def test_the_demo_model(models: Models, n_ctx: int, kv_type: str, slots: int, n_batch: int) -> None:
    params = ContextParams(
        n_ctx, slots + 9, n_outputs_max=17 * slots, n_batch=n_batch, kv_type=kv_type, flash_attention="on"
    )
    agree(dry(models.demo, params), really(models.demo, params))


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("n_ctx", [256, 4096])
@pytest.mark.parametrize("write", [footprint_kit.windowed, footprint_kit.hybrid, footprint_kit.repacked])
def test_models_whose_memory_is_not_plain(
    tmp_path: Path, write: Callable[[Path], Path], n_ctx: int, mmap: bool
) -> None:
    path = write(tmp_path / "model.gguf")
    params = ContextParams(n_ctx, 6, n_outputs_max=34, n_batch=128, kv_type="f16")
    estimate = dry(path, params, mmap=mmap)
    agree(estimate, really(path, params, mmap=mmap))
    assert estimate.on(HOST).total_bytes == estimate.total_bytes


def test_flash_attention_off_takes_more_and_is_told(models: Models) -> None:
    on, off = (
        ContextParams(2048, 4, n_outputs_max=8, n_batch=256, kv_type="f16", flash_attention=flash)
        for flash in ("on", "off")
    )
    agree(dry(models.random, off), really(models.random, off))
    assert dry(models.random, off).total_bytes > dry(models.random, on).total_bytes


def test_no_weight_is_loaded_and_nothing_is_left_out(models: Models) -> None:
    model = Model(models.demo, load=Load.SIZES)
    assert model.memory.weights_bytes == 0
    context = Context(model, ContextParams(256, 1, 1, n_batch=64))
    estimate = dry_run.footprint(context, mmap=True)
    context.close()
    model.close()
    with open_header(models.demo) as header:
        sizes = sum(tensor.size_bytes for tensor in header.tensors())
    assert estimate.on(HOST).weights_bytes == sizes


def test_the_output_buffer_is_counted_as_large_as_it_gets(models: Models) -> None:
    few, many = (ContextParams(256, 2, n_outputs_max=rows, n_batch=128) for rows in (2, 66))
    assert dry(models.demo, few).growth_bytes == 0
    grown = dry(models.demo, many)
    assert grown.growth_bytes == 64 * 49152 * 4
    assert grown.on(HOST).output_bytes == 66 * 49152 * 4


def test_the_whole_formula_of_the_output_buffer() -> None:
    """Figures of llama_context::output_reserve: 3 taps of 4096 over a batch of 2048 are 96 MiB."""
    assert dry_run.output_bytes(n_vocab=0, n_outputs=1, n_batch=2048, n_embd=4096, num_taps=3) == 96 * MIB
    assert dry_run.output_bytes(n_vocab=1000, n_outputs=8) == 32_000
    assert dry_run.output_bytes(n_vocab=1000, n_outputs=8, n_embd=10, embeddings=True) == 32_320
    assert dry_run.output_bytes(n_vocab=1000, n_outputs=8, n_embd=10, nextn_rows=100) == 36_000
    assert dry_run.output_bytes(n_vocab=1000, n_outputs=8, samplers=True) == 32_000 + 8 * (3 * 1000 + 1) * 4
    assert dry_run.tap_bytes(num_taps=3, n_ubatch=512, n_embd=4096) == 24 * MIB


def test_a_drafter_of_hidden_states_borrows_from_a_dry_target(models: Models, tmp_path: Path) -> None:
    """Its own sizes are those of the real load; what the target spends on the taps is on top."""
    head = footprint_kit.eagle_head(tmp_path / "head.gguf", target_width=64)
    wide = ContextParams(1024, 3, n_outputs_max=34, n_batch=128, kv_type="f16")
    narrow = replace(wide, n_outputs_max=64, n_batch=64)
    with ExitStack() as opened:

        def context(path: Path, params: ContextParams, load: Load, other: Context | None = None) -> Context:
            model = Model(path, load=load)
            opened.callback(model.close)
            context = Context(model, params, other=other)
            opened.callback(context.close)
            return context

        target = context(models.random, wide, Load.SIZES)
        estimate = dry_run.footprint(context(head, narrow, Load.SIZES, target), mmap=True)
        real = context(head, narrow, Load.WEIGHTS, context(models.random, wide, Load.WEIGHTS))
        agree(estimate, real.memory_with_model)
        tapped = dry_run.with_taps(estimate, target, num_taps=3)
    taps = 3 * 128 * 64 * 4
    assert tapped.total_bytes == estimate.total_bytes + 2 * taps
    assert tapped.at_load == estimate.at_load


GPU_LOG = (
    *(
        f"load_tensors: layer {layer:3} assigned to device {'CUDA0' if layer else 'CPU'}, is_swa = 0"
        for layer in range(3)
    ),
    "llama_context:  CUDA_Host  output buffer size =     1.00 MiB",
    *(f"llama_kv_cache: layer {layer:3}: dev = {'CUDA0' if layer else 'CPU'}" for layer in range(2)),
    "llama_kv_cache:        CPU KV buffer size =     0.00 MiB",
    "llama_kv_cache:      CUDA0 KV buffer size =     0.00 MiB",
    "llama_kv_cache: size =   64.00 MiB (  4096 cells,   2 layers,  4/1 seqs), K (f16): 32.00 MiB, V (f16): 32.00 MiB",
    "llama_kv_cache: layer   1: dev = CUDA0",
    "llama_kv_cache: size =    8.00 MiB (   512 cells,   1 layers,  4/1 seqs), K (f16): 4.00 MiB, V (f16): 4.00 MiB",
    "llama_memory_recurrent:      CUDA0 RS buffer size =    16.00 MiB",
    "sched_reserve:      CUDA0 compute buffer size =   300.00 MiB",
    "sched_reserve:  CUDA_Host compute buffer size =    20.00 MiB",
)


@dataclass
class LoggedModel:
    """What a model on a GPU would have logged; the first of its two layers stays on the CPU."""

    path: Path
    log: tuple[str, ...] = GPU_LOG
    vocab: Any = field(default_factory=lambda: SimpleNamespace(n_vocab=288))
    n_embd_out: int = 64


def test_each_byte_is_put_on_the_device_that_the_log_names(models: Models) -> None:
    """Two layers in one cache, half of them on the device, and a window of 8 MiB there."""
    context: Any = SimpleNamespace(
        model=LoggedModel(models.random),
        log=GPU_LOG,
        params=ContextParams(4096, 4, n_outputs_max=17),
        n_outputs_max=17,
        n_ctx=4096,
    )
    estimate = dry_run.footprint(context, mmap=False)
    device, host = estimate.on("CUDA0"), estimate.on(HOST)
    assert set(estimate.devices) == {"CUDA0", HOST}
    assert device.kv_bytes == (32 + 8 + 16) * MIB
    assert host.kv_bytes == 32 * MIB
    assert (device.compute_bytes, host.compute_bytes) == (300 * MIB, 20 * MIB)
    assert (device.output_bytes, host.output_bytes) == (0, 17 * 288 * 4)
    with open_header(models.random) as header:
        sizes = {tensor.name: tensor.size_bytes for tensor in header.tensors()}
    stays = [name for name in sizes if name.startswith(("token_embd", "blk.0."))]
    assert host.weights_bytes == sum(sizes[name] for name in stays)
    assert device.weights_bytes == sum(sizes.values()) - host.weights_bytes


def test_tied_embeddings_are_there_twice_when_the_output_is_on_the_device(tmp_path: Path) -> None:
    path = footprint_kit.windowed(tmp_path / "tied.gguf")
    with open_header(path) as header:
        sizes = {tensor.name: tensor.size_bytes for tensor in header.tensors()}
    everywhere = tuple(f"load_tensors: layer {layer:3} assigned to device CUDA0, is_swa = 0" for layer in range(7))
    weights = weights_of(LoggedModel(path, everywhere), mmap=False)  # type: ignore[arg-type]
    assert weights.by_device[HOST] == sizes["token_embd.weight"]
    assert weights.by_device["CUDA0"] == sum(sizes.values())
