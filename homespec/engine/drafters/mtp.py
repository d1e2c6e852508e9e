"""`mtp`: the block for multi-token prediction that a model brings along, in its own file or beside it.

Gloeckle et al., arXiv 2404.19737; DeepSeek-V3, arXiv 2412.19437, section 2.2. llama.cpp calls it NextN. It reads the
state behind the target's last layer, and is fed its own state for every further token.
"""

from __future__ import annotations

from homespec.engine.drafters.head import HeadContext, head_params
from homespec.engine.drafters.kind import MTP, Head
from homespec.engine.drafters.pairs import PairDrafter
from homespec.engine.llama.context import Context
from homespec.engine.llama.model import Model


def open_mtp(model: Model, target: Context, *, rows_per_slot: int, num_running: int, chunk: int) -> PairDrafter:
    """The drafter on a loaded block; `model` may be the target's own. Raises ModelUnsupported."""
    kind = Head(MTP, model.architecture)
    params = head_params(target, kind, rows_per_slot=rows_per_slot, num_running=num_running)
    context = Context(model, params, other=target)
    owns_model = model is not target.model
    head = HeadContext(context, target, first_token=0, limit=2 * chunk, owns_model=owns_model)
    return PairDrafter(MTP, head, target.model.vocab, has_all_outputs=False)
