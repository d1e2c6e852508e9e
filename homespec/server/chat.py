"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from homespec.server.body import JsonRoute
from homespec.server.document import BODY, ENGINE, EVENTS, answers
from homespec.server.generate import generate
from homespec.server.services import PartitionDep, ServicesDep
from homespec.server.target import target_of
from homespec.wire.chat import ChatRequest
from homespec.wire.chat_shape import ChatShape

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions", responses=answers(*BODY, 404, *ENGINE, stream=EVENTS, notices=True))
async def chat_completions(
    request: Request, body: ChatRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer a conversation, with the model's own chat template."""
    target = await target_of(request, services, body.model)
    plan = body.plan(target.chat_format)
    shape = ChatShape(
        target.id,
        reasoning=plan.reasoning,
        tools=plan.tools,
        include_usage=body.stream_options.include_usage,
        with_logprobs=body.logprobs,
        with_spans=body.speculative.spans,
    )
    frames = body.frames(shape.id, partition=partition, plan=plan)
    return await generate(request, services, frames, shape, target.plan, notices=plan.notices)
