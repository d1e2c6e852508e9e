"""Embeddings: refused with the remedy, on every path where clients ask for them."""

from __future__ import annotations

from fastapi import APIRouter, Response

from homespec.errors import RequestError

router = APIRouter()
ollama_router = APIRouter(prefix="/api")


@router.post("/embeddings")
@ollama_router.post("/embed")
@ollama_router.post("/embeddings")
async def embeddings() -> Response:
    """The target is loaded to generate text: its context holds no pooled states."""
    raise RequestError(
        "embeddings are not served: the model is loaded to generate text; ask a server that was started with an "
        "embedding model, for example llama-server --embeddings",
        code="embeddings_not_supported",
        param="model",
    )
