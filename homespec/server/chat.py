"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from homespec.server.body import JsonRoute
from homespec.server.generate import generate
from homespec.server.services import PartitionDep, ServicesDep
from homespec.wire.requests import ChatRequest
from homespec.wire.responses import Shape

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions")
async def chat_completions(
    request: Request, body: ChatRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer a conversation, with the model's own chat template."""
    shape = Shape("chat", services.check_model(body.model))
    frames = body.frames(shape.id, partition=partition)
    return await generate(request, services.supervisor, frames, shape, include_usage=body.stream_options.include_usage)
