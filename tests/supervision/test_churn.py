"""The short form of `make soak`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.models import Models
from tests.soak import churning

pytestmark = pytest.mark.process


def test_churn_leaves_nothing_behind(models: Models, tmp_path: Path) -> None:
    with churning(tmp_path, models, seed=1) as churn:
        before = churn.at_rest()
        churn.cycle()
        growth = churn.growth_since(before)
    assert not [fault for fault in growth if not fault.startswith("resident")]
    assert churn.daemon.survivors() == []
