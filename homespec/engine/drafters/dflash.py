"""`dflash`: a head that fills in a block of masked tokens in one pass (block diffusion, Chen et al., arXiv 2602.06036).

llama.cpp: src/models/dflash.cpp. Each row of the block predicts its own token; nothing ties neighbours together.
"""

from __future__ import annotations

from dataclasses import replace

from homespec.engine.drafters.blocks import Block, BlockDrafter
from homespec.engine.drafters.head import HeadContext, head_params
from homespec.engine.drafters.kind import DFLASH, Head
from homespec.engine.llama.context import Context
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import TapPlan


def open_dflash(
    model: Model, target: Context, head: Head, *, rows_per_slot: int, num_running: int, chunk: int
) -> BlockDrafter:
    """The drafter on a loaded head. Raises ModelUnsupported when its context cannot be made."""
    context = open_block_context(model, target, head, rows_per_slot=rows_per_slot, num_running=num_running, chunk=chunk)
    assert target.taps is not None
    assert head.block_size is not None
    return BlockDrafter(DFLASH, context, target.model.vocab, head, Block(head.block_size, 1), target.taps.width)


def open_block_context(
    model: Model, target: Context, head: Head, *, rows_per_slot: int, num_running: int, chunk: int
) -> HeadContext:
    """A context in which the rows of a block see one another, unless the file says otherwise."""
    params = head_params(target, rows_per_slot=rows_per_slot, num_running=num_running)
    taps = TapPlan() if head.has_confidence else None
    params = replace(params, n_outputs_max=params.n_batch, is_causal=head.is_causal, taps=taps)
    return HeadContext(Context(model, params, other=target), target, first_token=0, limit=2 * chunk, owns_model=True)
