"""Ollama's API, so that its clients work unchanged: /api/chat, /api/generate, /api/tags, /api/show, /api/ps, …"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from homespec import __version__
from homespec.server.body import JsonRoute
from homespec.server.generate import generate
from homespec.server.models import capabilities
from homespec.server.services import PartitionDep, Services, ServicesDep
from homespec.server.sse import line_stream
from homespec.status import ModelStatus
from homespec.wire.chat import ChatRequest
from homespec.wire.ollama import OllamaChatRequest, OllamaGenerateRequest, ShowRequest
from homespec.wire.ollama_shape import OllamaShape, loaded

router = APIRouter(prefix="/api", route_class=JsonRoute)

OLLAMA_VERSION = "0.12.0"
"""The version of Ollama whose API this follows: clients ask for it to learn what they may use."""
_NEVER = "9999-12-31T23:59:59Z"
"""A model is not unloaded while the server runs."""


@router.post("/chat")
async def chat(request: Request, body: OllamaChatRequest, services: ServicesDep, partition: PartitionDep) -> Response:
    """Answer a conversation; a stream of JSON lines unless `stream` is false."""
    model = services.check_model(body.model)
    if not body.messages:
        return JSONResponse(loaded(model, is_chat=True))
    return await _answer_chat(request, services, partition, body.request(), body, is_chat=True)


@router.post("/generate")
async def generate_text(
    request: Request, body: OllamaGenerateRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer one question, or go on from a text with `raw`."""
    model = services.check_model(body.model)
    body.check()
    if not body.prompt:
        return JSONResponse(loaded(model, is_chat=False))
    if not body.raw and services.facts().chat is not None:
        return await _answer_chat(request, services, partition, body.chat(), body, is_chat=False)
    shape = OllamaShape(model, is_chat=False)
    frames = body.completion().frames(shape.id, partition=partition)
    notices = body.notices(services.facts().n_ctx)
    return await generate(request, services, frames, shape, framing=line_stream, notices=notices)


async def _answer_chat(
    request: Request,
    services: Services,
    partition: str,
    chat_request: ChatRequest,
    body: OllamaChatRequest | OllamaGenerateRequest,
    *,
    is_chat: bool,
) -> Response:
    plan = chat_request.plan(services.chat_format())
    shape = OllamaShape(
        services.check_model(body.model),
        is_chat=is_chat,
        reasoning=plan.reasoning,
        tools=plan.tool_format,
        with_logprobs=chat_request.logprobs,
    )
    frames = chat_request.frames(shape.id, partition=partition, plan=plan)
    notices = (*plan.notices, *body.notices(services.facts().n_ctx))
    return await generate(request, services, frames, shape, framing=line_stream, notices=notices)


@router.get("/version")
async def version() -> dict[str, str]:
    return {"version": OLLAMA_VERSION, "homespec": __version__}


@router.get("/tags")
async def tags(services: ServicesDep) -> dict[str, Any]:
    """The one model that is served."""
    return {"models": [_card(services)]}


@router.get("/ps")
async def ps(services: ServicesDep) -> dict[str, Any]:
    """The model, once it is loaded."""
    facts = services.supervisor.model
    if facts is None:
        return {"models": []}
    snapshot = services.supervisor.ledger.snapshot
    card = _card(services) | {"expires_at": _NEVER, "context_length": facts.n_ctx}
    if snapshot is not None:
        card["size"] = snapshot.target_memory.total_bytes
    if facts.devices == ("CPU",):
        card["size_vram"] = 0
    return {"models": [card]}


@router.post("/show")
async def show(body: ShowRequest, services: ServicesDep) -> dict[str, Any]:
    """Facts of the model. Raises RequestError 503 while it loads."""
    services.check_model(body.model or body.name)
    facts = services.facts()
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "modified_at": _modified(services),
        "details": _details(facts),
        "model_info": {
            "general.architecture": facts.architecture,
            "general.parameter_count": facts.num_params,
            f"{facts.architecture}.context_length": facts.n_ctx_train,
            f"{facts.architecture}.block_count": facts.n_layer,
            f"{facts.architecture}.vocab_size": facts.n_vocab,
        },
        "capabilities": capabilities(facts),
    }


def _card(services: Services) -> dict[str, Any]:
    path = Path(services.model_path)
    stat = path.stat() if path.exists() else None
    facts = services.supervisor.model
    # Of the file's name, size and time: reading a model to hash it would take minutes.
    identity = f"{path}:{stat.st_size}:{stat.st_mtime_ns}" if stat else str(path)
    return {
        "name": services.model_id,
        "model": services.model_id,
        "modified_at": _modified(services),
        "size": stat.st_size if stat else 0,
        "digest": hashlib.sha256(identity.encode()).hexdigest(),
        "details": _details(facts) if facts else {"format": "gguf"},
    }


def _modified(services: Services) -> str:
    path = Path(services.model_path)
    seconds = path.stat().st_mtime if path.exists() else services.started_unix
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _details(facts: ModelStatus) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": facts.architecture,
        "families": [facts.architecture],
        "parameter_size": _size(facts.num_params),
        # llama.cpp describes a model as "llama 135M Q4_1".
        "quantization_level": facts.description.rpartition(" ")[2],
    }


def _size(num_params: int) -> str:
    """`134.5M`, `7.6B`."""
    billions = num_params / 1e9
    return f"{billions:.1f}B" if billions >= 1 else f"{billions * 1000:.1f}M"
