"""Work that must go on."""

from __future__ import annotations

import asyncio
import logging

import pytest

from homespec.steady import Steady

logger = logging.getLogger("homespec.tests")


def fail(steady: Steady, *faults: Exception) -> None:
    for fault in faults:
        with steady.turn():
            raise fault


def test_a_fault_is_told_and_goes_no_further(caplog: pytest.LogCaptureFixture) -> None:
    fail(Steady(logger, "reading memory"), ValueError("odd"))
    [record] = caplog.records
    assert record.getMessage() == "reading memory failed"
    assert record.exc_info is not None


def test_the_same_fault_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    fail(Steady(logger, "reading memory"), *(ValueError("odd") for _ in range(3)), ValueError("new"))
    assert len(caplog.records) == 2


def test_being_told_to_end_is_no_fault() -> None:
    with pytest.raises(asyncio.CancelledError), Steady(logger, "reading memory").turn():
        raise asyncio.CancelledError
