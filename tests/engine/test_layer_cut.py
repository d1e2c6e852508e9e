"""Which layers a copy leaves out, and what its header must say then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homespec.engine.layer_cut import Cut, Trunk, cut
from homespec.errors import DeriveError

PLAIN = Trunk("llama", 4, 0, 0, {"blk.3.attn_norm.weight"}, {"llama.rope.dimension_sections": 4})
MTP = Trunk("glm4moe", 4, 1, 2, {"blk.4.attn_norm.weight", "blk.4.nextn.eh_proj.weight"}, {})
DENSE, BLOCKS = "glm4moe.leading_dense_block_count", "glm4moe.nextn_predict_layers"


@pytest.mark.parametrize(
    ("trunk", "kept", "expected"),
    [
        (PLAIN, None, Cut()),
        (PLAIN, [0, 3], Cut((1, 2), {})),
        (PLAIN, [0, 1, 2, 3], Cut((), {})),
        (MTP, None, Cut()),
        (MTP, [0, 3], Cut((1, 2, 4), {DENSE: 1, BLOCKS: 0})),
        (MTP, [2, 3], Cut((0, 1, 4), {DENSE: 0, BLOCKS: 0})),
        # A converter has left the block out, and not its number.
        (replace(MTP, tensors={"blk.3.attn_norm.weight"}), [0, 1, 2, 3], Cut((4,), {DENSE: 2, BLOCKS: 0})),
        # What lies behind the trunk is no MTP block.
        (replace(MTP, tensors={"blk.4.attn_norm.weight"}), [0, 1], Cut((2, 3), {DENSE: 2})),
    ],
)
def test_what_goes_and_what_follows(trunk: Trunk, kept: list[int] | None, expected: Cut) -> None:
    assert cut(kept, trunk) == expected


def test_layers_that_are_not_there_are_refused() -> None:
    with pytest.raises(DeriveError, match="layer 4 is to be kept, and the model has layers 0 to 3"):
        cut([0, 4], MTP)


def test_a_list_by_layer_cannot_be_cut() -> None:
    listed = replace(MTP, arrays={"glm4moe.attention.head_count_kv": 5, "glm4moe.x": 4})
    assert cut(None, listed) == Cut()
    with pytest.raises(DeriveError, match=r"'glm4moe.attention.head_count_kv' has a value for each layer.*--quant"):
        cut([0], listed)
