"""GET /v1/models."""

from __future__ import annotations

from typing import Any

import msgspec
from fastapi import APIRouter

from homespec.offers import Offer
from homespec.server.document import answers
from homespec.server.services import Services, ServicesDep
from homespec.status import ModelStatus

router = APIRouter()


@router.get("/models", responses=answers())
@router.get("/models/", include_in_schema=False)  # else it reads as a model without a name
async def models(services: ServicesDep) -> dict[str, Any]:
    """Every model that a request may name, with the context it may use where that is known."""
    return {"object": "list", "data": [_card(services, offer) for offer in await services.all_offers()]}


@router.get("/models/{name:path}", responses=answers(404))
async def model(name: str, services: ServicesDep) -> dict[str, Any]:
    return _card(services, await services.offer(name))


def capabilities(facts: ModelStatus) -> list[str]:
    """In Ollama's words. Tools work with every chat template: they are described where it knows none."""
    has = {
        "completion": facts.generates,
        "tools": facts.chat is not None,
        "thinking": facts.chat is not None and facts.chat.reasoning is not None,
        "insert": facts.fills_in,
        "embedding": facts.embedding is not None,
    }
    return [name for name, it_has in has.items() if it_has]


def _card(services: Services, offer: Offer) -> dict[str, Any]:
    card: dict[str, Any] = {
        "id": offer.id,
        "object": "model",
        "created": services.started_unix,
        "owned_by": "homespec",
        "status": {"value": services.board.residence(offer).value},
    }
    if (facts := services.facts(offer)) is not None:
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
            "embedding": msgspec.to_builtins(facts.embedding),
        }
        card["capabilities"] = capabilities(facts)
    return card
