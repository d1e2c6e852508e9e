"""What an engine says, and whom it concerns."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from homespec.frames import (
    Delta,
    Embedded,
    Finished,
    FromEngine,
    Happened,
    Heartbeat,
    Loading,
    Measured,
    Noted,
    Ready,
    Refused,
    Snapshot,
    Text,
    Tokens,
)
from homespec.status import EngineSnapshot, ModelStatus
from homespec.supervision.plan import Plan
from homespec.supervision.progress import Progress
from homespec.supervision.requests import Requests
from homespec.supervision.state import State


class Hearing:
    """Of one engine."""

    def __init__(
        self,
        plan: Plan,
        state: State,
        requests: Requests,
        progress: Progress,
        on_ready: Callable[[ModelStatus], None],
    ) -> None:
        self._plan = plan
        self._state = state
        self._requests = requests
        self._progress = progress
        self._on_ready = on_ready

    def receive(self, frame: FromEngine) -> None:
        state = self._state
        match frame:
            case Delta() | Finished() | Embedded() | Refused() | Tokens() | Text():
                self._requests.answer(frame)
            case Noted(request_id, notices):
                self._requests.note(request_id, notices)
            case Heartbeat():
                self._progress.beat(frame, time.monotonic())
            case Snapshot(snapshot):
                state.ledger.observe(snapshot, time.monotonic())
                self._reconcile(snapshot)
            case Loading(progress, detail):
                state.load_progress, state.detail = progress, detail
            case Ready(model):
                self._on_ready(model)
            case Measured(exactness, reason, threads):
                is_news = (exactness, reason) != (state.exactness, state.exactness_reason)
                state.exactness, state.exactness_reason = exactness, reason
                if threads is not None and state.model is not None:
                    state.model = replace(state.model, threads=threads)
                if is_news:  # perhaps only the threads are
                    state.tell("engine", f"exactness {exactness}: {reason}")
            case Happened(kind, text):
                state.tell(kind, text)

    def _reconcile(self, snapshot: EngineSnapshot) -> None:
        """Say so once when the estimate was wrong."""
        if difference := self._plan.reconcile(snapshot):
            self._state.tell("model", f"memory of {self._plan.asked.model_id}: {difference}")
