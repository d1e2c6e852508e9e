"""`draft`: a second, smaller GGUF with the target's vocabulary."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from homespec.engine.drafters.cache import FollowingCache
from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.vocab import Vocab
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal
from homespec.errors import KvCacheFull


@dataclass(slots=True)
class _Run:
    """A draft while it grows."""

    request: DraftRequest
    pending: list[int]
    """Tokens that the drafter must decode before it can propose the next one."""
    tokens: list[int]
    draft: list[Proposal] = field(default_factory=list)


class ModelDrafter:
    """Drafts with a model of its own, batched over sequences.

    Its KV cache is kept between rounds: what it holds is compared with the sequence, rejected tokens are taken back,
    and what it has not seen (the bonus token, and the last draft token after a full acceptance) is decoded together
    with the next seed. So it also catches up by itself after rounds in which it was not asked.
    """

    name = "draft"

    def __init__(self, context: Context, target: Vocab, *, chunk: int, window: int) -> None:
        """window: most tokens of one sequence in the KV cache, drafted ones included; at least 256."""
        self._context = context
        self._target = target
        self._chunk = chunk
        self._batch = Batch(context.params.n_batch)
        self._cache = FollowingCache(context, window)
        self.memory = context.memory_with_model

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        self._cache.begin(slot_id, source_id, num_shared)

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        if len(token_ids) > self._cache.window:
            return  # most of it would be dropped again: `propose` starts from the end of the prompt
        pending = self._cache.rewind(slot_id, token_ids)
        if self._knows(pending):
            self._feed(slot_id, pending)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        drafts: dict[int, Draft] = {}
        runs: list[_Run] = []
        room = self._batch.capacity
        asking = {request.slot_id for request in requests}
        for request in requests:
            pending = self._cache.rewind(request.slot_id, request.token_ids, request.max_tokens)
            if not self._knows(pending):
                drafts[request.slot_id] = Draft([], "a token that the drafter does not know")
                continue
            if len(pending) > min(self._chunk, room):
                self._feed(request.slot_id, pending, asking)
                drafts[request.slot_id] = Draft([], "catching up")
                continue
            room -= len(pending)
            runs.append(_Run(request, pending, list(request.token_ids)))
        self._run(runs, asking)
        drafts.update({run.request.slot_id: Draft(run.draft, "" if run.draft else "no room") for run in runs})
        return [drafts[request.slot_id] for request in requests]

    def close(self, slot_id: int) -> None:
        self._cache.close(slot_id)

    def shutdown(self) -> None:
        self._cache.forget()
        self._context.close()
        self._context.model.close()

    def _run(self, runs: list[_Run], asking: set[int]) -> None:
        active = runs
        while active:
            rows = self._decode([(run.request.slot_id, run.pending, 1) for run in active], asking)
            if rows is None:
                return
            logits = self._context.logits()
            for run, row in zip(active, rows, strict=True):
                proposal = run.request.propose(self._row(logits[row]), run.tokens)
                run.draft.append(proposal)
                run.tokens.append(proposal.token_id)
                run.pending = [proposal.token_id]
            active = [run for run in active if not run.request.is_met(run.draft, self._target.is_end)]

    def _row(self, logits: Logits) -> Logits:
        """Logits over the target's vocabulary: padding ids that only one of the two knows are never drafted."""
        missing = self._target.n_vocab - len(logits)
        if missing > 0:
            return np.concatenate([logits, np.full(missing, -np.inf, np.float32)])
        return logits[: self._target.n_vocab]

    def _knows(self, token_ids: list[int]) -> bool:
        """Padding ids that only the target has are no tokens of the drafter."""
        return max(token_ids, default=0) < self._context.model.vocab.n_vocab

    def _feed(self, slot_id: int, pending: list[int], in_use: Set[int] = frozenset()) -> None:
        """Decode one chunk without logits."""
        self._decode([(slot_id, pending[: self._chunk], 0)], in_use)

    def _decode(self, rows: list[tuple[int, list[int], int]], in_use: Set[int]) -> list[int] | None:
        """Decode (slot, tokens, outputs) rows in one call; None when there is no room even without slots not in use."""
        self._batch.clear()
        first_rows = [
            self._batch.add(tokens, len(self._cache[slot_id]), slot_id, outputs) for slot_id, tokens, outputs in rows
        ]
        try:
            self._context.decode(self._batch)
        except KvCacheFull:
            idle = set(self._cache) - {row[0] for row in rows} - in_use
            if not idle:
                return None
            for slot_id in idle:
                self.close(slot_id)
            return self._decode(rows, in_use)
        for slot_id, tokens, _ in rows:
            self._cache[slot_id].extend(tokens)
        return first_rows
