from __future__ import annotations

import math
from typing import Any

import pytest

from homespec.errors import RequestError
from homespec.wire.keep_alive import keep_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        (0, 0),
        (300, 300),
        (1.5, 1.5),
        ("0", 0),
        ("300", 300),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        (-1, math.inf),
        ("-1", math.inf),
        ("-1m", math.inf),
        pytest.param(1e30, math.inf, id="beyond Go's durations"),
        pytest.param(10**400, math.inf, id="beyond a float"),
        pytest.param("1" * 400 + "h", math.inf, id="beyond a float, as text"),
    ],
)
def test_seconds_and_durations(value: Any, seconds: float | None) -> None:
    assert keep_s(value) == seconds


@pytest.mark.parametrize("value", ["soon", "5 m", "m", "-", True, [], {}, "1m1", "9" * 400])
def test_anything_else_is_refused_with_its_name(value: Any) -> None:
    with pytest.raises(RequestError) as refused:
        keep_s(value)
    assert refused.value.info.param == "keep_alive"
