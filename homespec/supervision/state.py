"""Where the daemon stands, as everyone sees it."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque

from homespec.ledger import Ledger
from homespec.status import Event, ModelStatus, Phase, StartCause

logger = logging.getLogger("homespec.supervisor")

UNMEASURED = ("distribution", "not measured yet")
"""Exactness, and the reason for it."""
_KEPT_EVENTS = 50


class State:
    """Written by the supervisor and its parts only."""

    def __init__(self) -> None:
        self.phase = Phase.LOADING
        self.detail = "starting the engine"
        self.load_progress = 0.0
        self.model: ModelStatus | None = None
        self.exactness, self.exactness_reason = UNMEASURED
        self.ledger = Ledger()
        self.starts = Counter[StartCause]()
        self.idle_unloads = Counter[str]()
        self.started_at = time.monotonic()
        self.events: deque[Event] = deque(maxlen=_KEPT_EVENTS)

    def enter(self, phase: Phase, detail: str) -> None:
        self.phase, self.detail = phase, detail

    def begin_load(self, cause: StartCause) -> None:
        """An engine is started."""
        self.load_progress = 0.0
        self.exactness, self.exactness_reason = UNMEASURED
        self.starts[cause] += 1

    def tell(self, kind: str, text: str) -> None:
        """An event, for the log and /status."""
        logger.info("%s %s", kind, text)
        self.events.append(Event(time.time(), kind, text))
