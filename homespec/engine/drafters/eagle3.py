"""`eagle3`: a one-layer head that reads three layers of the target (Li et al., EAGLE-3, arXiv 2503.01840).

llama.cpp: src/models/eagle3.cpp. An encoder fuses the three states to one; a draft vocabulary smaller than the target's
is mapped inside the graph, and the tokens it lacks have -inf logits.
"""

from __future__ import annotations

import numpy as np

from homespec.engine.drafters.head import HeadContext, head_params
from homespec.engine.drafters.kind import EAGLE3, Head
from homespec.engine.drafters.pairs import PairDrafter
from homespec.engine.llama.context import Context
from homespec.engine.llama.hidden_batch import HiddenBatch
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import Hidden

_FIRST_TOKEN = 1
"""A row stands at the position of its state: the first token of all has no row."""


class Eagle3Drafter(PairDrafter):
    """See PairDrafter."""

    def __init__(self, head: HeadContext, target: Context) -> None:
        super().__init__(EAGLE3, head, target.model.vocab, has_all_outputs=True)
        assert target.taps is not None
        self._features = HiddenBatch(head.context.params.n_batch, target.taps.width, has_tokens=False)

    def states_for_rows(self, hidden: Hidden) -> Hidden:
        """The three layers' states, shape (rows, 3 · n_embd of the target), fused to (rows, n_embd of the head)."""
        chunk = self._features.capacity
        return np.concatenate([self._encode(hidden[start : start + chunk]) for start in range(0, len(hidden), chunk)])

    def _encode(self, hidden: Hidden) -> Hidden:
        self._features.clear()
        # The encoder has no memory, but its rows must go on where a sequence ends: one that no slot uses is empty.
        self._features.add_hidden(hidden, 0, self._head.context.params.n_seq_max - 1, len(hidden))
        self._head.context.encode(self._features)
        return self._head.states(0, len(hidden))


def open_eagle3(model: Model, target: Context, *, rows_per_slot: int, num_running: int, chunk: int) -> Eagle3Drafter:
    """The drafter on a loaded head. Raises ModelUnsupported when its context cannot be made."""
    kind = Head(EAGLE3, model.architecture)
    params = head_params(target, kind, rows_per_slot=rows_per_slot, num_running=num_running)
    context = Context(model, params, other=target)
    head = HeadContext(context, target, first_token=_FIRST_TOKEN, limit=2 * chunk, owns_model=True)
    return Eagle3Drafter(head, target)
