"""`mtp` with a file of its own that keeps no cache: it attends to the target's (gemma4-assistant).

llama.cpp: src/models/gemma4-assistant.cpp. Its layers have queries only; keys and values are those of the target's last
two layers, one with a sliding window and one without. So there is nothing to follow and nothing to take back: a draft
starts from the state in front of the last token, and every token of it stands at that token's position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.drafters.kind import MTP
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.hidden_batch import HiddenBatch
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import Hidden, TapPlan
from homespec.engine.sampling.sampler import Proposal
from homespec.errors import KvCacheFull


@dataclass(slots=True)
class _Run:
    """A draft while it grows."""

    request: DraftRequest
    hidden: Hidden
    """The state in front of the last token, shape (1, width)."""
    tokens: list[int]
    draft: list[Proposal] = field(default_factory=list)

    @property
    def position(self) -> int:
        """Of every row: that of the last token which the target has not decoded."""
        return len(self.request.token_ids) - 1


class SharedDrafter:
    """See Drafter."""

    name = MTP

    def __init__(self, context: Context, target: Context) -> None:
        assert target.taps is not None
        self.memory = context.memory_with_model
        self._context = context
        self._target = target.model.vocab
        self._taps = target.taps
        self._taps.listen(self.observe)
        self._last: dict[int, tuple[int, Hidden]] = {}
        """By slot: the position of the last token that the target has decoded, and its state."""
        self._batch = HiddenBatch(context.params.n_batch, self._taps.width, has_tokens=True)

    def observe(self, slot_id: int, position: int, hidden: Hidden) -> None:
        """The target has decoded and kept tokens of a slot."""
        self._last[slot_id] = position + len(hidden) - 1, hidden[-1:]

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        self._last.pop(slot_id, None)

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        """The cache is the target's own."""

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        runs = [run for request in requests if (run := self._run_for(request)) is not None]
        for start in range(0, len(runs), self._batch.capacity):
            self._draft(runs[start : start + self._batch.capacity])
        drafts = {run.request.slot_id: Draft(run.draft, "" if run.draft else "no room") for run in runs}
        unknown = Draft([], "the target's states are not known yet")
        return [drafts.get(request.slot_id, unknown) for request in requests]

    def close(self, slot_id: int) -> None:
        self._last.pop(slot_id, None)

    def shutdown(self) -> None:
        self._taps.listen(None)
        self._last.clear()
        self._context.close()
        self._context.model.close()

    def _run_for(self, request: DraftRequest) -> _Run | None:
        position, hidden = self._last.get(request.slot_id, (-1, None))
        if hidden is None or position != len(request.token_ids) - 2:
            return None
        return _Run(request, hidden, list(request.token_ids))

    def _draft(self, runs: list[_Run]) -> None:
        active = runs
        while active:
            self._batch.clear()
            for run in active:
                self._batch.add_hidden(run.hidden, run.position, run.request.slot_id, 1, run.tokens[-1:])
            try:
                self._context.decode(self._batch)
            except KvCacheFull:
                return
            assert self._context.taps is not None
            states, logits = self._context.taps.rows(0, len(active)), self._context.logits()
            for row, run in enumerate(active):
                proposal = run.request.propose(logits[row], run.tokens)
                run.hidden = states[row : row + 1]
                run.draft.append(proposal)
                run.tokens.append(proposal.token_id)
            active = [run for run in active if not run.request.is_met(run.draft, self._target.is_end)]


def open_shared(model: Model, target: Context) -> SharedDrafter:
    """The drafter on a loaded file. Raises ModelUnsupported when its context cannot be made."""
    n_seq_max = target.params.n_seq_max
    params = ContextParams(
        n_ctx=target.n_ctx,
        n_seq_max=n_seq_max,
        n_outputs_max=n_seq_max,
        n_batch=n_seq_max,
        n_threads=target.params.n_threads,
        kv_type=target.params.kv_type,
        flash_attention=target.params.flash_attention,
        taps=TapPlan(),
        is_mtp=True,
    )
    return SharedDrafter(Context(model, params, other=target), target)
