from __future__ import annotations

import pytest

from homespec.engine import outbox


@pytest.fixture(autouse=True)
def _send_text_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams send a Delta after every round, not after a time."""
    monkeypatch.setattr(outbox, "DELTA_INTERVAL_S", 0.0)
