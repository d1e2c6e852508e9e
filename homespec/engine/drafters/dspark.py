"""`dspark`: a DFlash head whose rows are chained by a Markov head, with a confidence for each token.

llama.cpp: build_dspark_markov_head in src/models/dflash.cpp. The chain inside the graph is greedy: each row is
conditioned on the best token of the row before it, so a draft ends behind a token that was drawn otherwise.
"""

from __future__ import annotations

from itertools import takewhile

from homespec.engine.drafters.blocks import Block, BlockDrafter
from homespec.engine.drafters.dflash import open_block_context
from homespec.engine.drafters.drafter import DraftRequest
from homespec.engine.drafters.head import HeadContext
from homespec.engine.drafters.kind import DSPARK, Head
from homespec.engine.llama.context import Context
from homespec.engine.llama.model import Model
from homespec.engine.llama.vocab import Vocab
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal

MIN_CONFIDENCE = 0.5
"""A token that is less likely right than wrong is not worth its row of verification."""


class DsparkDrafter(BlockDrafter):
    """See BlockDrafter."""

    def __init__(self, context: HeadContext, target: Vocab, head: Head, block: Block, width: int) -> None:
        super().__init__(DSPARK, context, target, head, block, width)
        self._has_confidence = head.has_confidence

    def read(self, request: DraftRequest, logits: Logits, first_row: int) -> list[Proposal]:
        draft = super().read(request, logits[: self._num_confident(first_row, len(logits))], first_row)
        is_greedy = [each.token_id == row.argmax() for each, row in zip(draft, logits[: len(draft)], strict=True)]
        return draft[: 1 + (is_greedy.index(False) if False in is_greedy else len(draft))]

    def _num_confident(self, first_row: int, count: int) -> int:
        """Rows up to the first that doubts itself. Its confidence fills every column of its state."""
        if not self._has_confidence:
            return count
        confidences = self._head.states(first_row, count)[:, 0]
        return len(list(takewhile(lambda confidence: confidence >= MIN_CONFIDENCE, confidences)))


def open_dspark(
    model: Model, target: Context, head: Head, *, rows_per_slot: int, num_running: int, chunk: int
) -> DsparkDrafter:
    """The drafter on a loaded head. Raises ModelUnsupported when its context cannot be made."""
    context = open_block_context(model, target, head, rows_per_slot=rows_per_slot, num_running=num_running, chunk=chunk)
    assert target.taps is not None
    assert head.block_size is not None
    block = Block(head.block_size, 0 if head.samples_from_anchor else 1)
    return DsparkDrafter(context, target.model.vocab, head, block, target.taps.width)
