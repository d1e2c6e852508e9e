"""The facts of a loaded model, as everybody is told them."""

from __future__ import annotations

from homespec.engine.llama.context import Context
from homespec.engine.llama.library import library
from homespec.frames import EngineSettings
from homespec.status import ChatFormat, EmbeddingStatus, ModelStatus


def model_status(
    settings: EngineSettings,
    context: Context,
    *,
    chat: ChatFormat | None = None,
    embedding: EmbeddingStatus | None = None,
    generates: bool = True,
) -> ModelStatus:
    """context: the one that requests are answered from."""
    model = context.model
    return ModelStatus(
        id=settings.model_id,
        path=settings.model_path,
        description=model.description,
        architecture=model.architecture,
        num_params=model.num_params,
        size_bytes=model.size_bytes,
        n_vocab=model.vocab.n_vocab,
        n_layer=model.n_layer,
        n_ctx=context.n_ctx,
        n_ctx_train=model.n_ctx_train,
        slots=settings.slots,
        kv_type=context.params.kv_type,
        flash_attention=context.flash_attention,
        threads=context.params.n_threads,
        devices=(*(library().offload_devices() if settings.n_gpu_layers else ()), "CPU"),
        chat_template=chat.source if chat else None,
        chat=chat,
        generates=generates,
        embedding=embedding,
        fills_in=generates and model.vocab.fill_in is not None,
    )
