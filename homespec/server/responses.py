"""POST /v1/responses."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter, Request, Response

from homespec.errors import RequestError
from homespec.server.body import JsonRoute
from homespec.server.document import BODY, ENGINE, EVENTS, answers
from homespec.server.generate import generate
from homespec.server.services import PartitionDep, ServicesDep
from homespec.server.sse import named_event_stream
from homespec.server.target import target_of
from homespec.wire.generation import known_as
from homespec.wire.responses_request import ResponsesRequest, as_input
from homespec.wire.responses_shape import ResponsesShape

router = APIRouter(route_class=JsonRoute)


@router.post("/responses", responses=answers(*BODY, 404, *ENGINE, stream=EVENTS, notices=True))
async def responses(
    request: Request, body: ResponsesRequest, services: ServicesDep, partition: PartitionDep
) -> Response:
    """Answer a conversation that comes as items; nothing is kept."""
    target = await target_of(request, services, body.model)
    try:
        chat = body.request()
        plan = chat.plan(target.chat_format)
        shape = ResponsesShape(target.id, body.echo(), reasoning=plan.reasoning, tools=plan.tools)
        frames = known_as("text.format", chat.frames(shape.id, partition=partition, plan=plan))
        return await generate(
            request, services, frames, shape, target.plan, framing=named_event_stream, notices=plan.notices
        )
    except RequestError as error:
        raise RequestError.of(replace(error.info, param=as_input(error.info.param))) from error
