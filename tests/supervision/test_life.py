"""Engines that the system has no process for."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest

from homespec.errors import EngineError
from homespec.frames import EngineSettings
from homespec.status import Phase
from homespec.supervision import fast_failures
from homespec.supervision.life import Life
from homespec.supervision.plan import Plan
from homespec.supervision.requests import Requests
from homespec.supervision.state import State
from tests.kits.limits import limits


async def no_process(*_: Any, **__: Any) -> NoReturn:
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))


def num_open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def test_they_are_tried_again_like_those_that_die(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "create_subprocess_exec", no_process)
    monkeypatch.setattr(fast_failures, "MAX_BACKOFF_S", 0.01)
    state, bounds = State(), limits()
    life = Life(Plan(EngineSettings("m.gguf", "m")), state, Requests(bounds, slots=1), bounds)
    before = num_open_files()
    with pytest.raises(EngineError, match="died 6 times in a row, last: could not be started: Cannot allocate memory"):
        await life.run()
    assert state.phase is Phase.FAILED
    assert num_open_files() == before
