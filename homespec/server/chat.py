"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from homespec.server.body import JsonRoute
from homespec.server.generate import generate
from homespec.server.services import PartitionDep, ServicesDep
from homespec.wire.requests import ChatRequest

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions")
async def chat_completions(
    request: Request, body: ChatRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer a conversation, with the model's own chat template."""
    return await generate(request, services, body, partition, "chat")
