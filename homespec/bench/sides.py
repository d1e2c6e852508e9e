"""The sides of a comparison: one way of answering each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

PLAIN = "plain"
AUTO = "auto"
OTHER = "other server"


@dataclass(frozen=True, slots=True)
class Side:
    """Plain, a drafter with a limit on D, or another server."""

    name: str
    drafter: str | None = None
    """What the request asks for: `off`, `auto` or a drafter; None for another server."""
    max_draft_tokens: int | None = None
    """D at most; None leaves it to the daemon."""
    swept: bool = False
    """One of several D: told, but not judged by the exit code."""

    @property
    def is_ours(self) -> bool:
        return self.drafter is not None

    def speculative(self) -> dict[str, Any]:
        """The request field."""
        limit = {} if self.max_draft_tokens is None else {"max_draft_tokens": self.max_draft_tokens}
        return {"mode": self.drafter, **limit}


def sides_of(
    drafters: Sequence[str], max_draft_tokens: int | None, sweep: Sequence[int], *, against: bool
) -> tuple[Side, ...]:
    """Plain first, then every drafter, then the other server. In a sweep: every drafter with every D, then `auto`."""
    sides = [Side(PLAIN, "off")]
    for drafter in drafters:
        if sweep:
            # D = 0 is the plain side.
            sides += [Side(f"{drafter} D={limit}", drafter, limit, swept=True) for limit in sweep if limit]
        else:
            sides.append(Side(drafter if drafter != "off" else "plain again", drafter, max_draft_tokens))
    if sweep:
        sides.append(Side(AUTO, AUTO))
    return (*sides, Side(OTHER)) if against else tuple(sides)
