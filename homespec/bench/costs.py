"""What the daemon's controller says on /status of costs; read leniently, for a daemon may have none."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

_PENDING = ("unknown", "assumed")
"""What the controller calls costs that it has yet to measure, which it does while the daemon is idle."""


class _Controller(msgspec.Struct):
    costs: str | None = None
    plain_ms: float | None = None
    row_costs: dict[int, float] = {}
    """Time of a target pass over so many rows, in passes of one row."""


class _Speculation(msgspec.Struct):
    controller: _Controller | None = None


class _Status(msgspec.Struct):
    speculation: _Speculation | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    pending: bool = False
    """They are not measured yet."""
    verify: tuple[tuple[int, float], ...] = ()
    """Rows of a target pass and its milliseconds; empty when the daemon does not say."""


def read_costs(status: bytes) -> Costs:
    """Out of the JSON of /status."""
    try:
        speculation = msgspec.json.decode(status, type=_Status).speculation
    except msgspec.DecodeError:
        return Costs()
    controller = speculation.controller if speculation else None
    if controller is None:
        return Costs()
    pending = controller.costs in _PENDING
    plain = controller.plain_ms
    if plain is None or not controller.row_costs:
        return Costs(pending)
    rows = {1: 1.0, **controller.row_costs}
    return Costs(pending, tuple((count, ratio * plain) for count, ratio in sorted(rows.items())))
