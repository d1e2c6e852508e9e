"""Boxes and models that exist as numbers only, for the pure parts of planning."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

from homespec.footprint import HOST, Footprint, Shares
from homespec.headroom.admission import DraftChoice
from homespec.headroom.budget import Budget, DeviceBudget
from homespec.headroom.choice import Choice
from homespec.units import GIB, MIB

GPU = "CUDA0"
KV_BYTES = {"auto": 2.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}

Question = TypeVar("Question")
Answer = TypeVar("Answer")
Decision = TypeVar("Decision")


def run(search: Generator[Question, Answer, Decision], answer: Callable[[Question], Answer]) -> Decision:
    """Drive a search to its decision."""
    try:
        question = next(search)
        while True:
            question = search.send(answer(question))
    except StopIteration as done:
        decision: Decision = done.value
        return decision


@dataclass(frozen=True)
class PaperModel:
    """A model as llama.cpp would place it: embeddings in the box, layers where they are put, the output last."""

    weights_bytes: int
    n_layer: int = 32
    kv_width: int = 2048
    """Keys and values of one token in one layer, in elements."""
    n_ctx_train: int = 32768
    slot_bytes: int = 0
    """A state of fixed size per slot, as recurrent layers have."""

    def footprint(self, choice: Choice, device: str | None = None) -> Footprint:
        n_ctx = choice.n_ctx or min(self.n_ctx_train, 8192)
        cells = -(-n_ctx // 256) * 256
        layers = self.n_layer + 1
        on_device = 0
        if device is not None:
            on_device = layers if choice.n_gpu_layers < 0 else min(layers, choice.n_gpu_layers)
        kv = int(cells * self.n_layer * self.kv_width * KV_BYTES[choice.kv_type]) + self.slot_bytes * choice.slots
        share = on_device / layers
        devices = {
            HOST: Shares(int(self.weights_bytes * (1 - share)), int(kv * (1 - share)), 32 * MIB + cells * 512, 8 * MIB)
        }
        if device is not None and on_device:
            devices[device] = Shares(int(self.weights_bytes * share), int(kv * share), 64 * MIB + cells * 512)
        return Footprint(devices, n_ctx=cells, kv_type="f16" if choice.kv_type == "auto" else choice.kv_type)

    def drafting(self, way: DraftChoice, target: Choice, device: str | None = None) -> Footprint:
        """The same model as a drafter beside a target."""
        choice = Choice(way.n_ctx or target.n_ctx, way.kv_type or target.kv_type, way.n_gpu_layers, slots=target.slots)
        return self.footprint(choice, device)


def box(host_gib: float, *gpu_gib: float, reserve_mib: int = 512, unified: bool = False) -> Budget:
    """A box with that much free memory, and as much again in use."""

    def pool(name: str, gib: float, *, is_unified: bool = False) -> DeviceBudget:
        size = int(gib * GIB)
        return DeviceBudget(name, 2 * size + GIB, size, reserve_mib * MIB, is_unified=is_unified)

    devices = (pool(f"CUDA{index}", gib, is_unified=unified) for index, gib in enumerate(gpu_gib))
    return Budget(pool(HOST, host_gib), tuple(devices))
