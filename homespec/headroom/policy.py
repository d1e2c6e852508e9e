"""When a drafter has to go, and when it may come back. Pure: readings and a state in, a state and a reason out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from homespec.headroom.marks import Marks
from homespec.status import Cause, Watch
from homespec.units import format_bytes, format_duration, format_ratio

STALL_SHARE = 0.10
"""Of a second, with every task waiting for memory: a healthy box is below one percent."""
EVICTED_SHARE = 0.05
FAULTS_PER_S = 50.0
"""Pages read back. Together with a shrunken file they tell that the target is evicted and needed: pages that were only
read to repack them may go at no cost."""

SHORTEST_PAUSE = 0.125
"""Of the usual pause between two looks, right above a low mark."""


@dataclass(frozen=True, slots=True)
class PoolLevel:
    """What the policy looks at in one pool."""

    name: str
    free_bytes: int | None
    marks: Marks
    drafter_bytes: int | None
    """What the drafter holds here, or held when it was last loaded; None: it has not been loaded yet."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The readings of one moment."""

    pools: tuple[PoolLevel, ...]
    is_loaded: bool = True
    """The drafter's memory is among what is used."""
    stall_share: float | None = None
    stall_is_own: bool = False
    """Measured in this process's own control group, not on the whole box."""
    resident_share: float | None = None
    """Share of the target's mapped file that is in memory; None also where it need not be."""
    major_faults_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What the policy remembers."""

    watch: Watch = Watch.ADMITTED
    calm_since_s: float | None = None
    """Since when nothing has spoken against the drafter; None while something does."""
    peak_share: float = 0.0
    """The largest part of the target's file that was in memory."""
    pool: str | None = None
    """The pool that was low when the drafter went: it has to be known to have recovered."""


@dataclass(frozen=True, slots=True)
class Change:
    """A transition and its reason."""

    cause: Cause
    reason: str


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules. A calm of `hold_s` without a break is asked for before a drafter may come back."""

    hold_s: float

    def judge(
        self, state: State, seen: Observation, now_s: float, *, asked: bool = False
    ) -> tuple[State, Change | None]:
        """The next state, and the transition if there is one. asked: the user names the drafter, so nothing is held."""
        share = seen.resident_share
        state = replace(state, peak_share=max(state.peak_share, share or 0.0))
        if state.watch in (Watch.WITHDRAWN, Watch.REFUSED):
            return self._readmit(state, seen, now_s, asked)
        alarm = next(_alarms(state, seen), None)
        if alarm is None:
            return state, None
        change, pool = alarm
        return replace(state, watch=Watch.WITHDRAWN, calm_since_s=None, pool=pool), change

    def _readmit(self, state: State, seen: Observation, now_s: float, asked: bool) -> tuple[State, Change | None]:
        obstacle = next(_obstacles(state, seen), None)
        if obstacle is not None:
            return replace(state, calm_since_s=None), None
        since_s = now_s if state.calm_since_s is None else state.calm_since_s
        if asked or now_s - since_s >= self.hold_s:
            # Another target file may be mapped by then, or less of this one needed: the peak is measured anew.
            admitted = State(peak_share=seen.resident_share or 0.0)
            word, cause = ("admitted", Cause.FITS) if state.watch is Watch.REFUSED else ("readmitted", Cause.RECOVERED)
            reason = f"{word}: {_room(seen)}{_held(now_s - since_s, asked)}"
            return admitted, Change(Cause.ASKED if asked else cause, reason)
        return replace(state, calm_since_s=since_s), None


def why_out(state: State, seen: Observation) -> str:
    """What keeps a drafter out at this moment; empty when only time does."""
    return next(_obstacles(state, seen), "")


def shortage(seen: Observation) -> str:
    """What speaks for giving up models that do not answer at present; empty for nothing."""
    for level in seen.pools:
        if level.free_bytes is not None and level.free_bytes < level.marks.low_bytes:
            return _is_low(level.name, level.free_bytes, level.marks.low_bytes)
    return _stall(seen) or ""


def _is_low(name: str, free_bytes: int, low_bytes: int) -> str:
    return f"{name} has {format_bytes(free_bytes)} free, under the low mark of {format_bytes(low_bytes)}"


def _alarms(state: State, seen: Observation) -> Iterator[tuple[Change, str | None]]:
    """Everything that speaks for a withdrawal, with the pool that is low."""
    for level in _concerned(seen):
        free, low = level.free_bytes, level.marks.low_bytes
        if free is not None and free < low:
            yield Change(Cause.LOW_MEMORY, f"withdrawn: {_is_low(level.name, free, low)}"), level.name
    if (stall := _stall(seen)) is not None:
        yield Change(Cause.STALLED, f"withdrawn: {stall}"), None
    if (eviction := _eviction(state, seen)) is not None:
        yield Change(Cause.EVICTED, f"withdrawn: {eviction}"), None


def _obstacles(state: State, seen: Observation) -> Iterator[str]:
    """Everything that speaks against a return."""
    for level in _concerned(seen):
        back = 0 if seen.is_loaded else level.drafter_bytes or 0
        free, high = level.free_bytes, level.marks.high_bytes
        if free is None:
            if level.name == state.pool:
                yield f"it is not known what {level.name} has free"
        elif free - back < high:
            beside = f" beside the drafter's {format_bytes(back)}" if back else ""
            yield (
                f"{level.name} has {format_bytes(max(free - back, 0))} free{beside}, under the high mark of "
                f"{format_bytes(high)}"
            )
    if (text := _stall(seen)) is not None:
        yield text
    if seen.major_faults_per_s is not None and seen.major_faults_per_s >= FAULTS_PER_S:
        yield f"the engine reads back {seen.major_faults_per_s:.0f} pages/s"


def pause_s(poll_s: float, state: State, seen: Observation) -> float:
    """Seconds until the next look: the less is left above the low mark of a pool, the fewer.

    What takes memory at a steady pace is then seen close to the mark, however fast it is.
    """
    if state.watch is not Watch.ADMITTED:
        return poll_s
    left = (
        (level.free_bytes - level.marks.low_bytes) / level.marks.high_bytes
        for level in _concerned(seen)
        if level.free_bytes is not None
    )
    return poll_s * min(max(min(left, default=1.0), SHORTEST_PAUSE), 1.0)


def _concerned(seen: Observation) -> Iterator[PoolLevel]:
    """Pools in which a withdrawal frees anything."""
    return (level for level in seen.pools if level.drafter_bytes is None or level.drafter_bytes > 0)


def _stall(seen: Observation) -> str | None:
    """A stall of the whole box is somebody else's, squeezed by a limit of his own, as long as memory is plentiful."""
    if seen.stall_share is None or seen.stall_share < STALL_SHARE:
        return None
    plentiful = all(
        level.free_bytes is not None and level.free_bytes >= 2 * level.marks.high_bytes for level in seen.pools
    )
    if plentiful and not seen.stall_is_own:
        return None
    return (
        f"{format_ratio(seen.stall_share)} of the last second went by waiting for memory, the limit is "
        f"{format_ratio(STALL_SHARE)}"
    )


def _eviction(state: State, seen: Observation) -> str | None:
    share, faults = seen.resident_share, seen.major_faults_per_s
    if share is None or faults is None or faults < FAULTS_PER_S or share > state.peak_share - EVICTED_SHARE:
        return None
    return (
        f"{format_ratio(state.peak_share - share)} of the target's file has left memory and {faults:.0f} pages/s are "
        f"read back"
    )


def _room(seen: Observation) -> str:
    known = [level for level in _concerned(seen) if level.free_bytes is not None]
    return (
        ", ".join(
            f"{level.name} has {format_bytes(level.free_bytes)} free, high mark {format_bytes(level.marks.high_bytes)}"
            for level in known
        )
        or "no pressure"
    )


def _held(calm_s: float, asked: bool) -> str:
    return "; asked for by name" if asked else f"; calm for {format_duration(calm_s)}"
