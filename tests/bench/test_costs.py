from __future__ import annotations

import pytest

from homespec.bench.costs import Costs, read_costs


def test_costs_of_a_controller_are_milliseconds_per_rows() -> None:
    body = b'{"speculation":{"mode":"auto","controller":{"costs":"kept","plain_ms":10,"row_costs":{"4":2.5,"2":1.5}}}}'
    assert read_costs(body) == Costs(verify=((1, 10.0), (2, 15.0), (4, 25.0)))


@pytest.mark.parametrize("source", ["unknown", "assumed"])
def test_costs_that_are_not_measured_are_pending(source: str) -> None:
    assert read_costs(b'{"speculation":{"controller":{"costs":"%s"}}}' % source.encode()) == Costs(pending=True)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"speculation":null}', b'{"speculation":{}}', b'{"speculation":{"controller":7}}', b"hello"]
)
def test_a_daemon_that_says_nothing(body: bytes) -> None:
    assert read_costs(body) == Costs()
