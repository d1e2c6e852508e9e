"""POST /admin/drafter."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from homespec.server.body import JsonRoute
from homespec.server.services import ServicesDep
from homespec.wire.requests import DrafterRequest

router = APIRouter(route_class=JsonRoute)


@router.post("/admin/drafter")
async def drafter(body: DrafterRequest, services: ServicesDep) -> dict[str, Any]:
    """Set the process-wide switch. Takes effect from the next round on; running answers go on unchanged."""
    services.supervisor.set_drafter(body.mode)
    return {"mode": body.mode}
