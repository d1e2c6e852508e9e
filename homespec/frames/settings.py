"""What the engine is started with."""

from __future__ import annotations

import msgspec

DEFAULT_MAX_CTX = 8192
"""Context when none is asked for, unless the model was trained for less."""
CTX_STEP = 256
"""llama.cpp allocates KV cells in steps of this (GGML_PAD in llama_context)."""


def allocated_ctx(n_ctx: int) -> int:
    """Tokens of context that llama.cpp makes of what it is asked for."""
    return -(-n_ctx // CTX_STEP) * CTX_STEP


class EngineSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the engine needs to know to load and serve one target."""

    model_path: str
    model_id: str
    draft_path: str | None = None
    draft_candidates: tuple[str, ...] = ()
    """Draft files that nobody named, the preferred one first: of those that fit, one becomes `draft_path`."""
    outdated_candidates: dict[str, str] = {}
    """Those of them that were made of another file, with the reason: they stay out."""
    drafter_mode: str = "auto"
    draft_window: int | None = None
    """Tokens of a sequence that the draft model sees; None: all."""
    past_outputs_bytes: int = 0
    """Memory for past answers that may be drafted from; 0: none are kept."""
    past_outputs_path: str | None = None
    """File that they survive a restart in."""
    max_draft_tokens: int = 16
    controller: bool = True
    """Decide about drafter and D round by round, up to `max_draft_tokens`; False: always that many."""
    n_ctx: int | None = None
    """None: the trained context, at most `DEFAULT_MAX_CTX`."""
    slots: int = 4
    cached_prefixes: int = 8
    prefill_chunk: int = 256
    threads: int | None = None
    nice: int = 0
    """Added to the daemon's own nice level."""
    n_gpu_layers: int = -1
    """Layers of the target on the device; negative means all."""
    expects_gpu: bool = False
    """A GPU has been in use: should it be gone, the CPU does not take its place."""
    kv_type: str = "auto"
    flash_attention: str = "auto"
    mmap: bool = True
    acceptance: str = "coupled"
    """coupled: the text does not depend on the drafter; rejection: more draft tokens are accepted."""
    exactness: str = "auto"
    """auto: measured; strict: whatever makes it so, or refuse; fast: neither measured nor sought."""
    embeddings: str = "auto"
    """auto: an embedding model embeds, as its file says, and no other; else the pooling: mean, cls or last."""
    chat_template: str = "auto"
    """auto: the model file's own; else the name of a built-in one, or the path of a file."""
    log_native: bool = False
    """Pass llama.cpp's own information lines to the log."""
    quarantined: dict[str, str] = {}
    """Drafters that must stay off until they are asked for by name, with the reason."""
    withdrawn: str = ""
    """Why no drafter with memory of its own may be loaded at present; empty when one may."""
    refused: dict[str, str] = {}
    """Drafters that do not fit, with the reason; asking for them does not change that, `Admit` does."""
    draft_n_ctx: int | None = None
    """Context of the draft model; None: the target's, at most what it was trained for."""
    draft_kv_type: str | None = None
    """None: the target's."""
    draft_gpu_layers: int | None = None
    """None: as many as the target has."""
