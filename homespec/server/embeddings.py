"""POST /v1/embeddings, and Ollama's /api/embed and /api/embeddings."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from homespec.frames import Embed, Embedded
from homespec.server.body import JsonRoute
from homespec.server.document import BODY, ENGINE, NOTICE_HEADER, OLLAMA, answers, ollama_answers
from homespec.server.generate import header_text
from homespec.server.question import ask
from homespec.server.services import Services, ServicesDep
from homespec.server.target import Target, target_of
from homespec.wire.embeddings import EmbeddingRequest, OllamaEmbedRequest, OllamaPromptRequest, numbers
from homespec.wire.responses import request_id

router = APIRouter(route_class=JsonRoute)
ollama_router = APIRouter(prefix=OLLAMA, route_class=JsonRoute)


@router.post("/embeddings", responses=answers(*BODY, 404, *ENGINE, notices=True))
async def embeddings(request: Request, body: EmbeddingRequest, services: ServicesDep) -> Response:
    """Vectors of length 1, one for each text; refused where the model is not loaded to embed."""
    target = await target_of(request, services, body.model)
    embedded, headers = await _embed(request, services, target, body.frame(request_id("embd")))
    return JSONResponse(body.answer(target.id, embedded), headers=headers)


@ollama_router.post("/embed", responses=ollama_answers(*BODY, 404, *ENGINE, notices=True))
async def embed(request: Request, body: OllamaEmbedRequest, services: ServicesDep) -> Response:
    """The same in Ollama's shape; a text that is too long is cut unless `truncate` is false."""
    target = await target_of(request, services, body.model)
    if body.only_loads:
        return JSONResponse({"model": target.id, "embeddings": []})
    started_at = time.perf_counter_ns()
    embedded, headers = await _embed(request, services, target, body.frame(request_id("embd")))
    answer = {
        "model": target.id,
        "embeddings": [numbers(vector) for vector in embedded.vectors],
        "total_duration": time.perf_counter_ns() - started_at,
        "load_duration": 0,
        "prompt_eval_count": embedded.num_tokens,
    }
    return JSONResponse(answer, headers=headers)


@ollama_router.post("/embeddings", responses=ollama_answers(*BODY, 404, *ENGINE, notices=True))
async def embed_prompt(request: Request, body: OllamaPromptRequest, services: ServicesDep) -> Response:
    """One text, as older clients of Ollama ask."""
    target = await target_of(request, services, body.model)
    if not body.prompt:
        return JSONResponse({"embedding": []})
    embedded, headers = await _embed(request, services, target, body.frame(request_id("embd")))
    return JSONResponse({"embedding": numbers(embedded.vectors[0])}, headers=headers)


async def _embed(
    request: Request, services: Services, target: Target, frame: Embed
) -> tuple[Embedded, dict[str, str] | None]:
    """The vectors, and the header that says what was done differently. Raises RequestError."""
    embedded, notices = await ask(request, services, frame, target.plan)
    assert isinstance(embedded, Embedded)
    return embedded, {NOTICE_HEADER: header_text(notices)} if notices else None
