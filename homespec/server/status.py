"""GET /, /health, /status, /events and /metrics. None of them waits for the engine."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST

from homespec import __version__
from homespec.metrics import render
from homespec.server.document import EVENTS, HEALTH, answers
from homespec.server.services import ServicesDep
from homespec.server.sse import status_stream
from homespec.status import Phase
from homespec.supervision.requests import RETRY_AFTER_S

router = APIRouter()


@router.get("/", responses=answers())
async def root() -> dict[str, str]:
    """Who answers here, and where the rest is."""
    return {"name": "homespec", "version": __version__, "api": "/v1", "document": "/openapi.json"}


@router.get("/health", responses=HEALTH)
async def health(services: ServicesDep) -> JSONResponse:
    """200 only while the target answers or is ready to; also while none is loaded because nobody asks, and while it
    answers from less than was asked for.
    """
    supervisor = services.supervisor
    snapshot = supervisor.ledger.snapshot
    speculation = snapshot.speculation if snapshot else None
    ready = supervisor.phase in (Phase.READY, Phase.IDLE)
    answers = "degraded" if supervisor.degraded else "ok"
    body = {
        "status": answers if supervisor.phase is Phase.READY else supervisor.phase.value,
        "phase": supervisor.phase.value,
        "detail": supervisor.detail,
        "degraded": supervisor.degraded,
        "progress": round(supervisor.load_progress, 3),
        "model": supervisor.plan.model_id,
        "device": supervisor.model.devices[0] if supervisor.model else None,
        "drafter": speculation.drafter if speculation else None,
        "drafter_state": speculation.state.value if speculation else None,
        "drafter_reason": speculation.reason if speculation else None,
        "drafters": {each.name: {"state": each.state.value, "reason": each.reason} for each in speculation.drafters}
        if speculation
        else {},
    }
    headers = None if ready else {"Retry-After": str(RETRY_AFTER_S)}
    return JSONResponse(body, status_code=200 if ready else 503, headers=headers)


@router.get("/status", responses=answers())
async def status(services: ServicesDep) -> Response:
    """One snapshot of everything, without a word of any prompt."""
    return Response(msgspec.json.encode(services.board.status()), media_type="application/json")


@router.get("/events", response_class=Response, responses=answers(stream=EVENTS))
async def events(services: ServicesDep) -> Response:
    """The same snapshot as a stream, more than twice a second."""
    return status_stream(services.board, services.supervisor)


@router.get("/metrics", response_class=PlainTextResponse, responses=answers())
async def metrics(services: ServicesDep) -> Response:
    return Response(render(services.board.status()), media_type=CONTENT_TYPE_LATEST)
