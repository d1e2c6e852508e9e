"""The rules of thumb, by hand."""

from __future__ import annotations

import msgspec
import pytest

from homespec.footprint import ModelFacts, Speeds
from homespec.planning.guidelines import guidelines

FACTS = ModelFacts(
    architecture="llama",
    file_bytes=5_000_000_000,
    weights_bytes=5_000_000_000,
    num_params=8_000_000_000,
    n_layer=32,
    n_embd=4096,
    n_ff=14336,
    n_vocab=128256,
    n_ctx_train=8192,
    n_head=32,
    n_head_kv=8,
    head_widths=(128, 128),
    drafter_kind="draft",
)


@pytest.mark.parametrize(
    ("heads", "kv_heads", "group", "steps"),
    [(32, 8, 4, (31, 63, 95)), (9, 3, 3, (41, 84, 127)), (128, 1, 128, (1, 1, 2))],
)
def test_the_tile_rule(heads: int, kv_heads: int, group: int, steps: tuple[int, ...]) -> None:
    facts = msgspec.structs.replace(FACTS, n_head=heads, n_head_kv=kv_heads)
    guide = guidelines(facts, None)
    assert guide.heads_per_kv_head == group
    assert guide.tile_steps == steps


def test_the_knee_is_where_reading_and_computing_take_as_long() -> None:
    """50 GB/s read 5 GB in 100 ms; at 400 GFLOP/s a row of 8 G weights takes 40 ms."""
    guide = guidelines(FACTS, Speeds(read_bytes_per_s=50e9, flops=400e9))
    assert guide.plain_tokens_per_s == pytest.approx(10)
    assert guide.knee_rows == pytest.approx(2.5)
    assert any("at about 2.5 rows" in line for line in guide.lines())


def test_a_device_that_was_not_measured_gets_no_numbers() -> None:
    guide = guidelines(FACTS, None)
    assert guide.knee_rows is None
    assert "not measured on a device" in next(iter(guide.lines()))
