"""POST /admin/drafter."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from homespec.server.body import JsonRoute
from homespec.server.services import ServicesDep
from homespec.status import Watch
from homespec.wire.requests import DrafterRequest

router = APIRouter(route_class=JsonRoute)


@router.post("/admin/drafter")
async def drafter(body: DrafterRequest, services: ServicesDep) -> dict[str, Any]:
    """Set the process-wide switch. Takes effect from the next round on; running answers go on unchanged.

    Naming a drafter that was withdrawn under memory pressure lets it back as soon as it fits, without the hold.
    """
    services.supervisor.set_drafter(body.mode)
    if body.mode not in ("auto", "off"):
        services.monitor.ask()
    withdrawn = services.monitor.status()
    return {"mode": body.mode} | ({"reason": withdrawn.reason} if withdrawn.watch is Watch.WITHDRAWN else {})
