"""POST /v1/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from homespec.server.body import JsonRoute
from homespec.server.document import BODY, ENGINE, EVENTS, answers
from homespec.server.generate import generate
from homespec.server.services import PartitionDep, ServicesDep
from homespec.server.target import plan_of
from homespec.wire.completion_shape import CompletionShape
from homespec.wire.requests import CompletionRequest

router = APIRouter(route_class=JsonRoute)


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
