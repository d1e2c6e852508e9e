"""POST /v1/chat/completions."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from homespec.frames import Generate
from homespec.server.body import JsonRoute
from homespec.server.generate import generate
from homespec.server.services import PartitionDep, ServicesDep
from homespec.wire import ChatRequest, Shape

router = APIRouter(route_class=JsonRoute)


@router.post("/chat/completions")
async def chat_completions(
    request: Request, body: ChatRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer a conversation, with the model's own chat template."""
    shape = Shape("chat", services.check_model(body.model))
    body.check_supported()
    frame = Generate(
        request_id=shape.id,
        prompt=body.prompt(),
        sampling=body.sampling(),
        speculation=body.speculation(),
        max_tokens=body.token_limit(),
        stop=body.stops(),
        stream=body.stream,
        partition=partition,
        ignore_eos=body.ignore_eos,
    )
    return await generate(request, services.supervisor, frame, shape, include_usage=body.stream_options.include_usage)
