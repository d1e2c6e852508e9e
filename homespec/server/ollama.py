"""Ollama's API, so that its clients work unchanged: /api/chat, /api/generate, /api/tags, /api/show, /api/ps, …"""

from __future__ import annotations

import asyncio
import hashlib
import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from homespec import __version__
from homespec.offers import Offer
from homespec.server.body import JsonRoute
from homespec.server.document import BODY, ENGINE, LINES, OLLAMA, ollama_answers
from homespec.server.generate import generate
from homespec.server.ollama_facts import card_of, card_of_file, details_of
from homespec.server.services import PartitionDep, Services, ServicesDep
from homespec.server.sse import line_stream
from homespec.server.target import Target, load, plan_of, target_of
from homespec.status import Residence
from homespec.wire.chat import ChatRequest
from homespec.wire.generation import known_as
from homespec.wire.ollama import OllamaChatRequest, OllamaGenerateRequest, ShowRequest
from homespec.wire.ollama_shape import OllamaShape, loaded

router = APIRouter(prefix=OLLAMA, route_class=JsonRoute)

OLLAMA_VERSION = "0.12.0"
"""The version of Ollama whose API this follows: clients ask for it to learn what they may use."""
_NEVER = "9999-12-31T23:59:59Z"
"""For a model that is not unloaded while nobody asks."""


@router.post("/chat", responses=ollama_answers(*BODY, 404, *ENGINE, stream=LINES, notices=True))
async def chat(request: Request, body: OllamaChatRequest, services: ServicesDep, partition: PartitionDep) -> Response:
    """Answer a conversation; a stream of JSON lines unless `stream` is false."""
    body.check()
    if not body.messages:
        return await _load(request, services, body, is_chat=True)
    target = await target_of(request, services, body.model)
    target.plan.keep(body.keep_s)
    return await _answer_chat(request, services, partition, target, body.request(), body, is_chat=True)


@router.post("/generate", responses=ollama_answers(*BODY, 404, *ENGINE, stream=LINES, notices=True))
async def generate_text(
    request: Request, body: OllamaGenerateRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer one question, or go on from a text with `raw`."""
    body.check()
    if not body.prompt and not body.suffix:
        return await _load(request, services, body, is_chat=False)
    target = await target_of(request, services, body.model)
    target.plan.keep(body.keep_s)
    if not body.raw and not body.suffix and target.facts.chat is not None:
        return await _answer_chat(request, services, partition, target, body.chat(), body, is_chat=False)
    shape = OllamaShape(target.id, is_chat=False, with_logprobs=body.logprobs)
    frames = known_as("format", body.completion().frames(shape.id, partition=partition))
    notices = body.notices(target.facts.n_ctx)
    return await generate(request, services, frames, shape, target.plan, framing=line_stream, notices=notices)


async def _load(
    request: Request, services: Services, body: OllamaChatRequest | OllamaGenerateRequest, *, is_chat: bool
) -> Response:
    """Without a question: have the model loaded, or unloaded when it is to be kept for no time at all."""
    offer = await services.offer(body.model)
    plan = await plan_of(services, offer)
    plan.keep(body.keep_s)
    is_kept = body.keep_s != 0
    if is_kept:
        await load(request, services, plan)
    return JSONResponse(loaded(offer.id, is_chat=is_chat, is_kept=is_kept))


async def _answer_chat(
    request: Request,
    services: Services,
    partition: str,
    target: Target,
    chat_request: ChatRequest,
    body: OllamaChatRequest | OllamaGenerateRequest,
    *,
    is_chat: bool,
) -> Response:
    plan = chat_request.plan(target.chat_format)
    shape = OllamaShape(
        target.id,
        is_chat=is_chat,
        reasoning=plan.reasoning,
        tools=plan.tools,
        with_logprobs=chat_request.logprobs,
    )
    frames = known_as("format", chat_request.frames(shape.id, partition=partition, plan=plan))
    notices = (*plan.notices, *body.notices(target.facts.n_ctx))
    return await generate(request, services, frames, shape, target.plan, framing=line_stream, notices=notices)


@router.get("/version", responses=ollama_answers())
async def version() -> dict[str, str]:
    return {"version": OLLAMA_VERSION, "homespec": __version__}


@router.get("/tags", responses=ollama_answers())
async def tags(services: ServicesDep) -> dict[str, Any]:
    """Every model that a request may name."""
    return {"models": [_card(services, offer) for offer in await services.all_offers()]}


@router.get("/ps", responses=ollama_answers())
async def ps(services: ServicesDep) -> dict[str, Any]:
    """The models that are loaded."""
    offers = [each for each in await services.all_offers() if services.board.residence(each) is Residence.LOADED]
    return {"models": [_running_card(services, offer) for offer in offers]}


@router.post("/show", responses=ollama_answers(*BODY, 404, 500))
async def show(body: ShowRequest, services: ServicesDep) -> dict[str, Any]:
    """Facts of a model; of one that has never been loaded, what its file says."""
    offer = await services.offer(body.model or body.name)
    facts = services.facts(offer)
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "modified_at": _modified(services, _stat(offer.path)),
        **(card_of(facts) if facts else await asyncio.to_thread(card_of_file, offer.path)),
    }


def _running_card(services: Services, offer: Offer) -> dict[str, Any]:
    supervisor, facts = services.supervisor, services.facts(offer)
    plan = services.offers.plan_made(offer) or supervisor.plan
    left_s = supervisor.expires_in_s(plan)
    expiry = datetime.now(UTC) + timedelta(seconds=left_s) if left_s is not None else None
    card = _card(services, offer) | {"expires_at": expiry.isoformat() if expiry else _NEVER}
    if facts is not None:
        card["context_length"] = facts.n_ctx
    if (size := supervisor.target_bytes(plan)) is not None:
        card["size"] = size
    if facts is not None and facts.devices == ("CPU",):
        card["size_vram"] = 0
    return card


def _card(services: Services, offer: Offer) -> dict[str, Any]:
    stat, facts = _stat(offer.path), services.facts(offer)
    # Of the file's name, size and time: reading a model to hash it would take minutes.
    identity = f"{offer.path}:{stat.st_size}:{stat.st_mtime_ns}" if stat else str(offer.path)
    return {
        "name": offer.id,
        "model": offer.id,
        "modified_at": _modified(services, stat),
        "size": stat.st_size if stat else 0,
        "digest": hashlib.sha256(identity.encode(errors="backslashreplace")).hexdigest(),
        "details": details_of(facts),
    }


def _modified(services: Services, stat: os.stat_result | None) -> str:
    return datetime.fromtimestamp(stat.st_mtime if stat else services.started_unix, UTC).isoformat()


def _stat(path: Path) -> os.stat_result | None:
    """None for a file that is gone, perhaps at this moment."""
    with suppress(OSError):
        return path.stat()
    return None
