"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from homespec.server.body import JsonRoute
from homespec.server.generate import generate
from homespec.server.services import PartitionDep, ServicesDep
from homespec.wire.chat import ChatRequest
from homespec.wire.chat_shape import ChatShape

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions")
async def chat_completions(
    request: Request, body: ChatRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer a conversation, with the model's own chat template."""
    model = services.check_model(body.model)
    plan = body.plan(services.chat_format())
    shape = ChatShape(
        model,
        reasoning=plan.reasoning,
        tools=plan.tool_format,
        include_usage=body.stream_options.include_usage,
        with_logprobs=body.logprobs,
    )
    frames = body.frames(shape.id, partition=partition, plan=plan)
    return await generate(request, services, frames, shape, notices=plan.notices)
