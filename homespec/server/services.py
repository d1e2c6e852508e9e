"""What the endpoints share, found on the app's state."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Annotated

from fastapi import Depends, Request

from homespec.errors import RequestError
from homespec.headroom.monitor import Monitor
from homespec.offers import Offer, Offers
from homespec.server.auth import bearer_key
from homespec.server.board import Board
from homespec.status import ModelStatus
from homespec.supervisor import Supervisor


class Services:
    """The daemon's parts that endpoints use."""

    def __init__(self, supervisor: Supervisor, monitor: Monitor, offers: Offers, *, started_unix: int) -> None:
        self.supervisor = supervisor
        self.monitor = monitor
        self.offers = offers
        self.board = Board(supervisor, monitor, offers)
        self.started_unix = started_unix

    async def offer(self, name: str | None) -> Offer:
        """The model of that name. Raises RequestError 404 when nothing is called so."""
        name = name.removesuffix(":latest") if name else name  # what Ollama's clients add to a name without a tag
        if name in (None, "", "default"):
            return self.offers.default
        offer = self.offers.find_known(name) or await asyncio.to_thread(self.offers.find, name)
        if offer is not None:
            return offer
        _, *others = (repr(each.id) for each in await self.all_offers())
        there = ", ".join([f"{self.offers.default.id!r} (also called 'default')", *others])
        raise RequestError(
            f"model {name!r} is not served here; there is {there}",
            status=404,
            type="not_found_error",
            param="model",
            code="model_not_found",
        )

    async def all_offers(self) -> tuple[Offer, ...]:
        return await asyncio.to_thread(self.offers.all)

    def facts(self, offer: Offer) -> ModelStatus | None:
        """None for a model that has never been loaded."""
        plan = self.offers.plan_made(offer)
        return plan.facts if plan else None


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _partition(request: Request) -> str:
    """Requests share prefixes with requests of the same key only. Hashed: keys stay in this process."""
    return hashlib.sha256(bearer_key(request).encode()).hexdigest()


def client_of(request: Request) -> str:
    """Who asks, for fairness only: the programs of one box have an address in common, and often no key."""
    address = request.client.host if request.client else ""
    return f"{address} {request.headers.get('user-agent', '')} {_partition(request)}"


ServicesDep = Annotated[Services, Depends(_services)]
PartitionDep = Annotated[str, Depends(_partition)]
