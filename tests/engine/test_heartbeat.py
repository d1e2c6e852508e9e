"""The engine's word that it is alive, and what is done beside it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from homespec.engine import process
from homespec.engine.process import EngineProcess
from homespec.frames import EngineSettings, Frame, Heartbeat


def test_it_comes_whatever_is_found_beside_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise IndexError("an odd box")

    monkeypatch.setattr(process, "CrowdWatch", broken)
    sent: list[Frame] = []
    link: Any = SimpleNamespace(send=sent.append)
    loaded: Any = SimpleNamespace(scheduler=SimpleNamespace(progress=7, busy=True), context=None)
    engine = EngineProcess(link, EngineSettings("m.gguf", "m"))
    engine._engine = loaded
    engine._beat()
    engine._beat()
    assert sent == [Heartbeat(7, True)] * 2
    assert [record.getMessage() for record in caplog.records] == ["looking at other work on the box failed"]
