"""The model that a request asks for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from fastapi import Request

from homespec.errors import ErrorInfo, HomespecError, RequestError
from homespec.frames import Tokenize
from homespec.offers import Offer
from homespec.server.question import ask
from homespec.server.services import Services
from homespec.status import ChatFormat, ModelStatus
from homespec.supervision.plan import Plan
from homespec.wire.chat import UNKNOWN_TEMPLATE
from homespec.wire.responses import request_id


@dataclass(frozen=True, slots=True)
class Target:
    """A model, and what must be known of it before it can be asked."""

    id: str
    plan: Plan
    facts: ModelStatus

    @property
    def chat_format(self) -> ChatFormat:
        return self.facts.chat or UNKNOWN_TEMPLATE


async def plan_of(services: Services, offer: Offer) -> Plan:
    """How it is loaded. Raises RequestError when its file cannot be served."""
    try:
        made = services.offers.plan_made(offer)
        return made if made is not None else await asyncio.to_thread(services.offers.plan, offer)
    except HomespecError as error:
        message = f"model {offer.id!r} cannot be served: {error}"
        raise RequestError.of(ErrorInfo(message, 500, "server_error", "model", "load_failed")) from error


async def target_of(request: Request, services: Services, name: str | None) -> Target:
    """The model of that name. One that has never been loaded is loaded first: its template decides what the request
    comes to. Raises RequestError 404 for a name that nothing has, 503 while nothing can be asked.
    """
    offer = await services.offer(name)
    plan = await plan_of(services, offer)
    if plan.facts is None:
        await load(request, services, plan)
    assert plan.facts is not None, "it has answered"
    return Target(offer.id, plan, plan.facts)


async def load(request: Request, services: Services, plan: Plan) -> None:
    """Whatever a model is asked has it loaded; this costs it nothing."""
    await ask(request, services, Tokenize(request_id("load"), ""), plan)
