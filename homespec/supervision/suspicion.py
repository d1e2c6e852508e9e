"""Which drafters the death of an engine is put down to. Pure."""

from __future__ import annotations

from homespec.status import DraftState, EngineSnapshot

QUARANTINE_ROUNDS = 16
"""A drafter that has been through fewer rounds than this when the engine dies is suspected."""


def suspects(last: EngineSnapshot, reason: str, *, killed: bool) -> dict[str, str]:
    """The model drafters that must stay out of the next engine, each with the suspicion; from the last snapshot.

    A death while one was loading or new is put down to it. killed: by SIGKILL, and not by us. That is how an engine
    ends for which there was no memory (kernel, control group, systemd-oomd), and then every drafter with memory of its
    own is one too many.
    """
    found: dict[str, str] = {}
    for drafter in last.speculation.drafters:
        if drafter.path is None or drafter.state is DraftState.OFF:
            continue
        stats = last.speculation.totals.get(drafter.name)
        is_new = stats is None or stats.num_drafts < QUARANTINE_ROUNDS
        if drafter.state is DraftState.LOADING or is_new:
            found[drafter.name] = f"crashed: the engine {reason} while {drafter.path} was new"
        elif killed:
            found[drafter.name] = (
                f"crashed: the engine {reason}, perhaps for want of memory, with {drafter.path} loaded"
            )
    return found
