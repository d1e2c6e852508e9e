from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from homespec.headroom.survey import Survey
from homespec.units import GIB
from tests.headroom.planning import give


@pytest.fixture
async def survey() -> AsyncIterator[Survey]:
    async with Survey() as survey:
        yield survey


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A box of 16 GiB, all of it free; see `give`."""
    give(monkeypatch, 16 * GIB)
    return monkeypatch
