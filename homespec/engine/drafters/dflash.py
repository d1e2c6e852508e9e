"""`dflash`: a head that fills in a block of masked tokens in one pass (block diffusion, Chen et al., arXiv 2602.06036).

llama.cpp: src/models/dflash.cpp. Each row of the block predicts its own token; nothing ties neighbours together, unless
the head has a selector, which scores every candidate of a row behind every candidate of the row before it.
"""

from __future__ import annotations

import numpy as np

from homespec.engine.drafters.blocks import Block, BlockDrafter
from homespec.engine.drafters.drafter import DraftRequest
from homespec.engine.drafters.head import HeadContext, head_params
from homespec.engine.drafters.kind import DFLASH, Head
from homespec.engine.llama.context import Context
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import Hidden
from homespec.engine.llama.vocab import Vocab
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal


class SelectorDrafter(BlockDrafter):
    """See BlockDrafter. Drafts the candidates of one path through the block."""

    def __init__(self, context: HeadContext, target: Vocab, head: Head, block: Block, width: int) -> None:
        super().__init__(DFLASH, context, target, head, block, width)
        assert head.selector_top_k is not None
        self._top_k = head.selector_top_k

    def read(self, request: DraftRequest, logits: Logits, first_row: int) -> list[Proposal]:
        tokens = list(request.token_ids)
        draft: list[Proposal] = []
        before = 0  # in the first row all predecessors are the last token itself
        for row in self._head.states(first_row, len(logits))[: request.max_tokens]:
            candidates, scores = _lattice(row, self._top_k)
            proposal = request.propose(_spread(candidates, scores[before], logits.shape[1]), tokens)
            chosen = np.flatnonzero(candidates == proposal.token_id)
            if not len(chosen):
                break  # a constraint or a bias wants a token that the head has not considered
            draft.append(proposal)
            tokens.append(proposal.token_id)
            if self._target.is_end(proposal.token_id):
                break
            before = int(chosen[0])
        return draft


def _lattice(row: Hidden, top_k: int) -> tuple[np.ndarray, Hidden]:
    """Ids of a row's candidates, and their scores behind each candidate of the row before: shape (top_k, top_k)."""
    return row[:top_k].astype(np.intp), row[top_k : top_k + top_k * top_k].reshape(top_k, top_k)


def _spread(candidates: np.ndarray, scores: Logits, n_vocab: int) -> Logits:
    """Logits over the vocabulary: nothing else is possible."""
    logits = np.full(n_vocab, -np.inf, np.float32)
    logits[candidates] = scores
    return logits


def open_dflash(
    model: Model, target: Context, head: Head, *, rows_per_slot: int, num_running: int, chunk: int
) -> BlockDrafter:
    """The drafter on a loaded head. Raises ModelUnsupported when its context cannot be made."""
    context = open_block_context(model, target, head, rows_per_slot=rows_per_slot, num_running=num_running, chunk=chunk)
    assert target.taps is not None
    assert head.block_size is not None
    block, vocab, width = Block(head.block_size, 1), target.model.vocab, target.taps.width
    if head.has_selector:
        return SelectorDrafter(context, vocab, head, block, width)
    return BlockDrafter(DFLASH, context, vocab, head, block, width)


def open_block_context(
    model: Model, target: Context, head: Head, *, rows_per_slot: int, num_running: int, chunk: int
) -> HeadContext:
    """The context of a head that fills blocks."""
    params = head_params(target, head, rows_per_slot=rows_per_slot, num_running=num_running)
    return HeadContext(Context(model, params, other=target), target, first_token=0, limit=2 * chunk, owns_model=True)
