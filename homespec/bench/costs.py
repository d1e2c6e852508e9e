"""What the daemon's controller says on /status of costs; read leniently, for a daemon may have none."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

_PENDING = ("unknown", "assumed", "rechecking")
"""What the controller calls costs that it has yet to measure or to measure again, while the daemon is idle."""


class _Table(msgspec.Struct):
    """Milliseconds by context and rows."""

    contexts: list[int]
    rows: list[int]
    ms: list[list[float]]


class _Controller(msgspec.Struct):
    costs: str | None = None
    plain_ms: float | None = None
    row_costs: dict[int, float] = {}
    """Time of a target pass over so many rows, in passes of one row."""
    verify_table: _Table | None = None


class _Speculation(msgspec.Struct):
    controller: _Controller | None = None


class _Status(msgspec.Struct):
    speculation: _Speculation | None = None


@dataclass(frozen=True, slots=True)
class VerifyCost:
    """Of a target pass in one context."""

    context: int | None
    """Tokens in the KV cache; None: a short context."""
    points: tuple[tuple[int, float], ...]
    """Rows and milliseconds."""


@dataclass(frozen=True, slots=True)
class Costs:
    pending: bool = False
    """They are not measured yet."""
    verify: tuple[VerifyCost, ...] = ()
    """Empty when the daemon does not say."""


def read_costs(status: bytes) -> Costs:
    """Out of the JSON of /status."""
    try:
        speculation = msgspec.json.decode(status, type=_Status).speculation
    except msgspec.DecodeError:
        return Costs()
    controller = speculation.controller if speculation else None
    if controller is None:
        return Costs()
    return Costs(controller.costs in _PENDING, _verify(controller))


def _verify(controller: _Controller) -> tuple[VerifyCost, ...]:
    table, plain = controller.verify_table, controller.plain_ms
    if table is not None:
        lines = zip(table.contexts, table.ms, strict=False)
        return tuple(VerifyCost(context, tuple(zip(table.rows, line, strict=False))) for context, line in lines)
    if plain is None or not controller.row_costs:
        return ()
    rows = {1: 1.0, **controller.row_costs}
    return (VerifyCost(None, tuple((count, ratio * plain) for count, ratio in sorted(rows.items()))),)
