"""What of a model counts in which pool."""

from __future__ import annotations

import pytest

from homespec.headroom.levels import held
from homespec.status import ModelMemory

ON_CPU, ON_CARD = ModelMemory(100, 20, 3), ModelMemory(400, 60, 7)
RESIDENT = ModelMemory(500, 80, 10, {"CPU": ON_CPU, "CUDA0": ON_CARD})


@pytest.mark.parametrize(
    ("mapped", "weights"), [(0, 100), (30, 70), pytest.param(100_000, 0, id="more than its weights are mapped")]
)
def test_pages_of_mapped_weights_are_not_held_and_all_else_is(mapped: int, weights: int) -> None:
    memory = held(RESIDENT, mapped)
    assert memory.on("CPU") == ModelMemory(weights, 20, 3)
    assert memory.on("CUDA0") == ON_CARD
    assert memory.total_bytes == memory.on("CPU").total_bytes + memory.on("CUDA0").total_bytes


def test_a_resident_of_which_nothing_is_known_holds_nothing() -> None:
    assert held(ModelMemory(), 100).total_bytes == 0
