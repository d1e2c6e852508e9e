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
        after = churn.at_rest()
    assert not [fault for fault in after.growth_since(before) if not fault.startswith("resident")]
    assert churn.daemon.survivors() == []
