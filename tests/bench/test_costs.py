from __future__ import annotations

import pytest

from homespec.bench.costs import Costs, VerifyCost, read_costs


def test_costs_are_milliseconds_by_rows_for_each_context() -> None:
    table = b'{"contexts":[32,1024],"rows":[1,4],"ms":[[10,25],[12,30.5]]}'
    body = b'{"speculation":{"controller":{"costs":"kept","plain_ms":10,"row_costs":{"4":2.5},"verify_table":%s}}}'
    lines = (VerifyCost(32, ((1, 10.0), (4, 25.0))), VerifyCost(1024, ((1, 12.0), (4, 30.5))))
    assert read_costs(body % table) == Costs(verify=lines)


def test_a_daemon_without_a_table_may_still_say_what_rows_cost() -> None:
    body = b'{"speculation":{"mode":"auto","controller":{"costs":"kept","plain_ms":10,"row_costs":{"4":2.5,"2":1.5}}}}'
    assert read_costs(body) == Costs(verify=(VerifyCost(None, ((1, 10.0), (2, 15.0), (4, 25.0))),))


@pytest.mark.parametrize("source", ["unknown", "assumed", "rechecking"])
def test_costs_that_are_not_measured_are_pending(source: str) -> None:
    assert read_costs(b'{"speculation":{"controller":{"costs":"%s"}}}' % source.encode()) == Costs(pending=True)


@pytest.mark.parametrize(
    "body", [b"{}", b'{"speculation":null}', b'{"speculation":{}}', b'{"speculation":{"controller":7}}', b"hello"]
)
def test_a_daemon_that_says_nothing(body: bytes) -> None:
    assert read_costs(body) == Costs()
