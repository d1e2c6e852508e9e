"""The context of a draft model: one place, so that a dry run and the real load cannot disagree."""

from __future__ import annotations

from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.frames import EngineSettings


def draft_window(settings: EngineSettings, model: Model, target: ContextParams) -> int:
    """Most tokens of one sequence that the drafter sees: never more than it was trained for."""
    return min(
        settings.draft_window or target.n_ctx, settings.draft_n_ctx or target.n_ctx, target.n_ctx, model.n_ctx_train
    )


def draft_params(settings: EngineSettings, model: Model, target: ContextParams) -> ContextParams:
    """The target's settings, but no more context than its windows fill or the gate has left it."""
    windows = settings.slots * draft_window(settings, model, target)
    n_ctx = min(settings.draft_n_ctx or target.n_ctx, target.n_ctx, windows)
    return ContextParams(
        n_ctx=n_ctx,
        n_seq_max=target.n_seq_max,
        n_outputs_max=settings.slots,
        n_batch=min(target.n_batch, n_ctx),
        n_threads=target.n_threads,
        kv_type=settings.draft_kv_type or _kv_type(target),
        flash_attention=target.flash_attention,
    )


def _kv_type(target: ContextParams) -> str:
    """The target's; but bf16, which a strict target may need, cannot be turned when a window slides, and f16 can."""
    return "f16" if target.kv_type == "bf16" else target.kv_type


def draft_gpu_layers(settings: EngineSettings) -> int:
    """Layers of the drafter on the device."""
    return settings.n_gpu_layers if settings.draft_gpu_layers is None else settings.draft_gpu_layers
