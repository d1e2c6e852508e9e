"""The status board: one snapshot of everything, for /status, /events, /metrics and /health."""

from __future__ import annotations

import time

from homespec import __version__
from homespec.headroom.monitor import Monitor
from homespec.headroom.probe import host_memory, resident_bytes
from homespec.status import MemoryStatus, Status
from homespec.supervisor import Supervisor


class Board:
    """Reads the supervisor, the ledger and the memory monitor; never waits for the engine."""

    def __init__(self, supervisor: Supervisor, monitor: Monitor) -> None:
        self._supervisor = supervisor
        self._monitor = monitor

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
        )

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
        )
