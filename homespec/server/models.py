"""GET /v1/models."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter

from homespec.server.services import Services, ServicesDep
from homespec.status import ModelStatus

router = APIRouter()


@router.get("/models")
@router.get("/models/", include_in_schema=False)  # else it reads as a model without a name
async def models(services: ServicesDep) -> dict[str, Any]:
    """The one model that is served, with the context that a request may use."""
    return {"object": "list", "data": [_card(services)]}


@router.get("/models/{name:path}")
async def model(name: str, services: ServicesDep) -> dict[str, Any]:
    services.check_model(name)
    return _card(services)


def capabilities(facts: ModelStatus) -> list[str]:
    """In Ollama's words. Tools work with every chat template: they are described where it knows none."""
    if facts.chat is None:
        return ["completion"]
    return ["completion", "tools", *(["thinking"] if facts.chat.reasoning else [])]


def _card(services: Services) -> dict[str, Any]:
    card: dict[str, Any] = {
        "id": services.model_id,
        "object": "model",
        "created": services.started_unix,
        "owned_by": "homespec",
    }
    if (facts := services.supervisor.model) is not None:
        card["context_length"] = facts.n_ctx
        card["meta"] = {
            "n_ctx": facts.n_ctx,
            "n_ctx_train": facts.n_ctx_train,
            "n_vocab": facts.n_vocab,
            "n_params": facts.num_params,
            "size": facts.size_bytes,
            "architecture": facts.architecture,
            "slots": facts.slots,
            "chat_template": facts.chat_template,
            "chat": msgspec.to_builtins(facts.chat),
        }
        card["capabilities"] = capabilities(facts)
    return card
