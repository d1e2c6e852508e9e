from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.client.daemon_double import DaemonDouble


@pytest.fixture
def daemon() -> Iterator[DaemonDouble]:
    with DaemonDouble() as double:
        yield double


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No colour settings and no proxy of the machine, and the same clock everywhere."""
    for name in ("NO_COLOR", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()
