"""Which layers a copy leaves out, and the keys that have to follow. Pure.

llama.cpp's quantiser drops blocks, closes up the numbers of the others and writes how many are left; everything else in
the header stays as it was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from homespec.errors import DeriveError

_DENSE = "leading_dense_block_count"
_MTP = "nextn_predict_layers"


@dataclass(frozen=True, slots=True)
class Trunk:
    """What the header of a model says of its layers."""

    architecture: str
    n_layer: int
    """Without blocks behind the trunk."""
    num_mtp_layers: int
    """How many such blocks it promises."""
    num_leading_dense: int
    """Layers at the start that have no experts, where the others have."""
    tensors: Collection[str]
    """Names, of all parts of a split model."""
    arrays: Mapping[str, int]
    """Entries of each array of the architecture, by key."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What is left out of a copy."""

    dropped: tuple[int, ...] = ()
    keys: Mapping[str, int] = field(default_factory=dict)
    """Keys in full that differ from the model's."""


def cut(kept: Sequence[int] | None, trunk: Trunk) -> Cut:
    """For the layers to keep, in ascending order; None: all. Raises DeriveError when that cannot be done.

    With layers an MTP block goes as well: the copy drafts with its trunk alone, and the number of its blocks is that of
    what is there.
    """
    if kept is None:
        return Cut()
    if kept[-1] >= trunk.n_layer:
        raise DeriveError(f"layer {kept[-1]} is to be kept, and the model has layers 0 to {trunk.n_layer - 1}")
    if key := _per_layer(trunk):
        raise DeriveError(
            f"{key!r} has a value for each layer, and llama.cpp's quantiser leaves it as long as it is: the copy could "
            "not be loaded; keep all layers and make it smaller with --quant"
        )
    dropped = sorted(set(range(trunk.n_layer)) - set(kept))
    keys = {}
    if trunk.num_leading_dense:
        keys[_DENSE] = sum(layer < trunk.num_leading_dense for layer in kept)
    blocks = range(trunk.n_layer, trunk.n_layer + trunk.num_mtp_layers)
    if blocks and _are_for_mtp(blocks, trunk.tensors):
        dropped += blocks
        keys[_MTP] = 0
    return Cut(tuple(dropped), {f"{trunk.architecture}.{key}": value for key, value in keys.items()})


def _per_layer(trunk: Trunk) -> str | None:
    """The first key that has an entry for each block."""
    count = trunk.n_layer + trunk.num_mtp_layers
    lengths: Iterable[tuple[str, int]] = sorted(trunk.arrays.items())
    # Four sections of a rotary embedding are no layers.
    return next((key for key, length in lengths if length == count and ".rope." not in key), None)


def _are_for_mtp(blocks: Iterable[int], tensors: Collection[str]) -> bool:
    """Granite's switch router counts as such a block too, and the trunk needs it. Blocks may have been left out."""
    last = max(blocks)
    is_missing = not any(name.startswith(f"blk.{last}.") for name in tensors)
    return is_missing or f"blk.{last}.nextn.eh_proj.weight" in tensors
