"""What whoever runs the daemon may do to it: POST /admin/drafter, DELETE /admin/requests/{id}."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from homespec.errors import RequestError
from homespec.server.body import JsonRoute
from homespec.server.document import BODY, answers
from homespec.server.services import Services, ServicesDep
from homespec.status import Watch
from homespec.wire.requests import DrafterRequest

router = APIRouter(route_class=JsonRoute)


@router.post("/admin/drafter", responses=answers(*BODY))
async def drafter(body: DrafterRequest, services: ServicesDep) -> dict[str, Any]:
    """Set the process-wide switch, or load the draft model anew, or both. Takes effect from the next round on; running
    answers go on unchanged.

    Naming a drafter that was withdrawn under memory pressure, or refused at the start, lets it in as soon as it fits,
    without the hold.
    """
    body.check()
    if body.reload:
        services.supervisor.reload_drafter()
    if body.mode is not None:
        services.supervisor.set_drafter(body.mode)
    named = None if body.mode in ("auto", "off") else body.mode
    if named is not None:
        services.monitor.ask()
    reason = _out_of_use(named, services)
    return {
        "mode": services.supervisor.drafter_mode,
        **({"reloading": True} if body.reload else {}),
        **({"reason": reason} if reason else {}),
    }


def _out_of_use(named: str | None, services: Services) -> str | None:
    """Why the drafter that was named, or the draft model, does not draft now; None where nothing is known of it."""
    snapshot = services.supervisor.ledger.snapshot
    if named is not None and snapshot and (reason := snapshot.speculation.no_such(named)):
        return reason
    monitor = services.monitor.status()
    return monitor.reason if monitor.watch in (Watch.WITHDRAWN, Watch.REFUSED) else None


@router.delete("/admin/requests/{request_id}", responses=answers(404))
async def cancel(request_id: str, services: ServicesDep) -> dict[str, Any]:
    """End a request in flight, whatever it does; its client gets an error with the code `cancelled`."""
    # DELETE without a body: browsers ask before a page of another origin may send one.
    num_cancelled = services.supervisor.cancel_request(request_id)
    if not num_cancelled:
        raise RequestError(
            f"request {request_id!r} is not in flight; GET /status lists those that are under 'requests'",
            status=404,
            type="not_found_error",
            param="request_id",
            code="request_not_found",
        )
    return {"id": request_id, "cancelled": num_cancelled}
