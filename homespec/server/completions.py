"""POST /v1/completions, /tokenize and /detokenize."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from homespec.frames import Detokenize, Text, Tokenize, Tokens
from homespec.server.body import JsonRoute
from homespec.server.document import BODY, ENGINE, EVENTS, answers
from homespec.server.generate import generate
from homespec.server.question import ask
from homespec.server.services import PartitionDep, ServicesDep
from homespec.server.target import plan_of
from homespec.wire.completion_shape import CompletionShape
from homespec.wire.requests import CompletionRequest, DetokenizeRequest, TokenizeRequest
from homespec.wire.responses import request_id

router = APIRouter(route_class=JsonRoute)
tokens_router = APIRouter(route_class=JsonRoute)


@router.post("/completions", responses=answers(*BODY, 404, *ENGINE, stream=EVENTS, notices=True))
async def completions(
    request: Request, body: CompletionRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Continue a text or a list of token ids."""
    offer = await services.offer(body.model)
    plan = await plan_of(services, offer)
    shape = CompletionShape(
        offer.id,
        include_usage=body.stream_options.include_usage,
        with_logprobs=body.logprobs is not None,
        with_spans=body.speculative.spans,
    )
    return await generate(request, services, body.frames(shape.id, partition=partition), shape, plan)


@tokens_router.post("/tokenize", responses=answers(*BODY, *ENGINE))
async def tokenize(request: Request, body: TokenizeRequest, services: ServicesDep) -> dict[str, Any]:
    """Token ids of a text, without BOS."""
    answer, _ = await ask(request, services, Tokenize(request_id("tok"), body.content, body.parse_special))
    assert isinstance(answer, Tokens)
    return {"tokens": answer.token_ids}


@tokens_router.post("/detokenize", responses=answers(*BODY, *ENGINE))
async def detokenize(request: Request, body: DetokenizeRequest, services: ServicesDep) -> dict[str, Any]:
    """Text of token ids, control tokens spelled out."""
    answer, _ = await ask(request, services, Detokenize(request_id("tok"), body.tokens))
    assert isinstance(answer, Text)
    return {"content": answer.text}
