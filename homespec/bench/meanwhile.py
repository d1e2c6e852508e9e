"""What else a daemon did while it was measured, which its reader must know. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from homespec.bench.runner import Run
from homespec.bench.sides import Side
from homespec.status import DECODING_WITH, DraftState, Status

_THREADS = re.compile(rf"{DECODING_WITH} (\d+) of (\d+) ")


def of_daemon(sides: Sequence[Side], run: Run) -> Iterator[str]:
    """Notes for a report."""
    if run.unsettled:
        what = " and ".join(run.unsettled)
        yield f"the daemon was still measuring {what} when the bench began, which slows what runs beside it"
    first, last = run.first_status, run.last_status
    if first is None or last is None:
        return
    asked = sum(run.num_answering[side.name] for side in sides if side.is_ours)
    others = last.counters.requests - first.counters.requests - asked
    if others > 0:
        requests = "request" if others == 1 else "requests"
        yield f"the daemon answered {others} {requests} of others meanwhile: the times are not to be trusted"
    models = [status.model.id if status.model else None for status in (first, last)]
    if models[0] != models[1]:
        yield f"the daemon went from {models[0]} to {models[1]} meanwhile: the sides are not of one model"
    if last.engine.restarts > first.engine.restarts:
        yield f"the engine was restarted meanwhile: {last.engine.last_exit}"
    yield from _of_drafters(first, last)
    if (text := _fewer_threads(first, last)) is not None:
        yield f"the engine was {text}; times vary more, and a pass may not cost what was measured before"


def _of_drafters(first: Status, last: Status) -> Iterator[str]:
    """Those that came or went: before and after are two different things to measure."""
    if first.speculation is None or last.speculation is None:
        return
    was_ready = {each.name: each.state is DraftState.READY for each in first.speculation.drafters}
    for each in last.speculation.drafters:
        is_ready = each.state is DraftState.READY
        if was_ready.get(each.name, is_ready) != is_ready:
            change = "came" if is_ready else "went"
            yield f"drafter {each.name} {change} meanwhile ({each.reason}): the answers are of both states"
            return
    monitor = last.memory.monitor if last.memory else None
    if monitor and any(each.time_unix >= first.time_unix for each in monitor.transitions):
        reason = monitor.transitions[-1].reason
        yield f"the draft model came or went meanwhile ({reason}): the answers are of both states"


def _fewer_threads(first: Status, last: Status) -> str | None:
    """How many an engine decoded with while it was measured, when that was once not all of them."""
    at_first = None
    for event in last.events:
        if not (found := _THREADS.match(event.text)):
            continue
        if event.time_unix >= first.time_unix:
            return event.text
        at_first = event.text if int(found[1]) < int(found[2]) else None
    return at_first
