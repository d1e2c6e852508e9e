"""Heads that fill in a block of masked tokens at once, after the target's states have been written into their KV cache.

The cache of such a head holds the states of decoded tokens, one row per position, projected to keys and values. A draft
is one call: the last token and masks behind it, which see one another and the cache; its rows are taken back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.drafters.head import HeadContext, HeadDrafter
from homespec.engine.drafters.kind import Head
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.hidden_batch import MROPE_PLANES, HiddenBatch
from homespec.engine.llama.vocab import Vocab
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal


@dataclass(frozen=True, slots=True)
class Block:
    """How a head's block is laid out."""

    size: int
    """Most rows: what the head was trained on."""
    first_draft: int
    """Row that predicts the first token: 1, or 0 where the last token's own row does."""

    def rows_for(self, num_tokens: int) -> int:
        """Rows that give `num_tokens`, as far as the block goes."""
        return min(self.size, num_tokens + self.first_draft)


class BlockDrafter(HeadDrafter):
    """See Drafter. `dflash` and `dspark` differ in the layout of the block and in how they read it."""

    def __init__(self, name: str, context: HeadContext, target: Vocab, head: Head, block: Block, width: int) -> None:
        """width: of the target's states, all tapped layers together."""
        super().__init__(name, context, target)
        self._block = block
        mask = context.context.model.vocab.mask
        assert mask is not None
        self._mask = mask
        capacity = context.context.params.n_batch
        planes = MROPE_PLANES if head.has_mrope else 1
        self._states = HiddenBatch(capacity, width, has_tokens=False, planes=planes)
        self._batch = Batch(capacity)

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        self._inject([slot_id], frozenset({slot_id}))

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        asking = frozenset(request.slot_id for request in requests)
        behind = {each.slot_id for each in requests if self._end_of(each.slot_id) != len(each.token_ids) - 1}
        ready = [request for request in requests if request.slot_id not in behind]
        drafts = dict.fromkeys(behind, Draft([], "the target's states are not known yet"))
        if not self._inject([request.slot_id for request in ready], asking):
            ready, drafts = [], {request.slot_id: Draft([], "no room") for request in requests}
        # One length for all: the graphs that chain tokens inside a block cut the call into equal parts.
        num_rows = max((self._block.rows_for(request.max_tokens) for request in ready), default=0)
        per_call = self._batch.capacity // max(1, num_rows)
        for start in range(0, len(ready), per_call):
            drafts |= self._fill(ready[start : start + per_call], num_rows, asking)
        return [drafts[request.slot_id] for request in requests]

    def read(self, request: DraftRequest, logits: Logits, first_row: int) -> list[Proposal]:
        """The draft, from the logits of the rows that predict; `first_row` is the first of them within the call."""
        tokens = list(request.token_ids)
        draft: list[Proposal] = []
        for row in logits[: request.max_tokens]:
            proposal = request.propose(row, tokens)
            draft.append(proposal)
            tokens.append(proposal.token_id)
            if self._target.is_end(proposal.token_id):
                break
        return draft

    def _end_of(self, slot_id: int) -> int:
        return self._head.track(slot_id).trail.end

    def _inject(self, slot_ids: list[int], in_use: frozenset[int]) -> bool:
        """Write all states that are known; False when there is no room."""
        for slot_id in slot_ids:
            track = self._head.track(slot_id)
            if track.trail.first > track.held:
                self._head.restart(slot_id, track.trail.first)
        self._states.clear()
        written: list[tuple[int, int]] = []
        for slot_id in slot_ids:
            position, end = self._head.track(slot_id).held, self._end_of(slot_id)
            while position < end:
                stop = min(end, position + self._states.capacity - self._states.n_tokens)
                self._states.add_hidden(self._head.track(slot_id).trail.read(position, stop), position, slot_id, 0)
                written.append((slot_id, stop))
                position = stop
                if self._states.n_tokens == self._states.capacity and not self._write(written, in_use):
                    return False
        return self._write(written, in_use)

    def _write(self, written: list[tuple[int, int]], in_use: frozenset[int]) -> bool:
        """Decode the collected rows, and note how far each slot is."""
        if not self._states.n_tokens:
            return True
        if not self._head.decode(self._states, in_use):
            return False
        for slot_id, stop in written:
            track = self._head.track(slot_id)
            track.held = stop
            track.trail.drop(stop)
        written.clear()
        self._states.clear()
        return True

    def _fill(self, requests: Sequence[DraftRequest], num_rows: int, asking: frozenset[int]) -> dict[int, Draft]:
        """One call over the blocks of all requests."""
        self._batch.clear()
        for request in requests:
            tokens = [request.token_ids[-1], *[self._mask] * (num_rows - 1)]
            self._batch.add(tokens, len(request.token_ids) - 1, request.slot_id, num_rows)
        drafts = {}
        if self._head.decode(self._batch, asking):
            logits = self._head.context.logits()
            for index, request in enumerate(requests):
                first, end = index * num_rows + self._block.first_draft, (index + 1) * num_rows
                draft = self.read(request, logits[first:end], first)
                drafts[request.slot_id] = Draft(draft, "" if draft else "not confident")
            for request in requests:
                self._head.rewind(request.slot_id, len(request.token_ids) - 1)
        return {request.slot_id: drafts.get(request.slot_id, Draft([], "no room")) for request in requests}
