"""What whoever runs the daemon may do to it: POST /admin/drafter, DELETE /admin/requests/{id}."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from homespec.errors import RequestError
from homespec.server.body import JsonRoute
from homespec.server.document import BODY, answers
from homespec.server.services import Services, ServicesDep
from homespec.status import DraftState, Watch
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
    if body.mode not in (None, "auto", "off"):
        services.monitor.ask()
    reason = _why_out(services, body.mode)
    return {
        "mode": services.supervisor.drafter_mode,
        **({"reloading": True} if body.reload else {}),
        **({"reason": reason} if reason else {}),
    }


def _why_out(services: Services, mode: str | None) -> str | None:
    """Why a drafter is out for memory, or the one that was named drafts nothing; None where there is nothing to say."""
    monitor, snapshot = services.monitor.status(), services.supervisor.ledger.snapshot
    if monitor.watch in (Watch.WITHDRAWN, Watch.REFUSED):
        return monitor.reason
    if snapshot is None or snapshot.speculation is None or services.supervisor.plan.settings.draft_path is not None:
        return None  # what a draft model waits for is no longer true once it is named
    drafters = snapshot.speculation.drafters
    return next((each.reason for each in drafters if each.name == mode and each.state is DraftState.OFF), None)


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
