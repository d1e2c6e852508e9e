"""The status board: one snapshot of everything, for /status, /events, /metrics and /health."""

from __future__ import annotations

import time
from collections.abc import Iterator

from homespec import __version__
from homespec.headroom.monitor import Monitor
from homespec.headroom.probe import host_memory, resident_bytes
from homespec.offers import Offer, Offers
from homespec.status import MemoryStatus, OfferStatus, Phase, Residence, Status
from homespec.supervision.plan import Plan
from homespec.supervisor import Supervisor


class Board:
    """Reads the supervisor, the ledger and the memory monitor; never waits for the engine."""

    def __init__(self, supervisor: Supervisor, monitor: Monitor, offers: Offers) -> None:
        self._supervisor = supervisor
        self._monitor = monitor
        self._offers = offers

    def status(self) -> Status:
        supervisor, ledger = self._supervisor, self._supervisor.ledger
        snapshot = ledger.snapshot
        now = time.monotonic()
        return Status(
            version=__version__,
            time_unix=time.time(),
            uptime_s=now - supervisor.started_at,
            phase=supervisor.phase,
            detail=supervisor.detail,
            load_progress=supervisor.load_progress,
            exactness=supervisor.exactness,
            exactness_reason=supervisor.exactness_reason,
            model=supervisor.model,
            engine=supervisor.engine_status(),
            queue=supervisor.queue_status(),
            throughput=ledger.throughput(now),
            speculation=snapshot.speculation if snapshot else None,
            counters=ledger.counters(),
            drafts=ledger.drafts(),
            requests=(*(snapshot.requests if snapshot else ()), *supervisor.waiting()),
            memory=self._memory(),
            events=tuple(supervisor.events),
            models=tuple(self._models()),
            first_token=supervisor.first_token_status(),
            degraded=supervisor.degraded,
        )

    def residence(self, offer: Offer) -> Residence:
        """Whether it is in memory."""
        return self._residence(self._offers.plan_made(offer))

    def _residence(self, plan: Plan | None) -> Residence:
        if plan is not None and self._supervisor.is_resident(plan):
            return Residence.LOADED
        if plan is not self._supervisor.plan:
            return Residence.UNLOADED
        match self._supervisor.phase:
            case Phase.READY | Phase.STALLED:
                return Residence.LOADED
            case Phase.LOADING | Phase.RESTARTING:
                return Residence.LOADING
            case _:
                return Residence.UNLOADED

    def _models(self) -> Iterator[OfferStatus]:
        supervisor, offers = self._supervisor, self._offers
        plans = {offer.id: offers.plan_made(offer) for offer in offers.known}
        plans.setdefault(supervisor.plan.model_id, supervisor.plan)
        for model_id, plan in plans.items():
            yield OfferStatus(model_id, self._residence(plan), supervisor.waiting_for(plan) if plan else 0)

    def _memory(self) -> MemoryStatus | None:
        snapshot = self._supervisor.ledger.snapshot
        if snapshot is None:
            return None
        host = host_memory()
        return MemoryStatus(
            target=snapshot.target_memory,
            drafter=snapshot.drafter_memory,
            kv_used_tokens=snapshot.kv_used_tokens,
            kv_total_tokens=snapshot.kv_total_tokens,
            engine_rss_bytes=resident_bytes(self._supervisor.engine_status().pid),
            host_total_bytes=host.total_bytes,
            host_available_bytes=host.available_bytes,
            pools=self._monitor.pools,
            monitor=self._monitor.status(),
            plan=self._supervisor.memory_plan,
            residents=self._supervisor.residents(),
        )
