"""The box that runs this can be measured."""

from __future__ import annotations

import pytest

from homespec.engine.speeds import measure_speeds


@pytest.mark.parametrize("threads", [1, 2])
def test_this_box_can_be_measured(threads: int) -> None:
    speeds = measure_speeds(threads)
    assert speeds.read_bytes_per_s > 1e8
    assert speeds.flops > 1e9
