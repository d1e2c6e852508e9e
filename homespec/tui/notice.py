"""The one line under the header: what is wrong, what goes on, or the totals when all is well. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from homespec.status import EngineCounters, Phase, Status
from homespec.tui.text import age, count, percent

SILENCE_S = 3.0
"""An open stream without a snapshot for longer than this is called silent."""


class LinkState(StrEnum):
    """How the dashboard stands with the daemon."""

    CONNECTING = "connecting"
    LIVE = "live"
    LOST = "lost"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Link:
    """The connection as last reported by the follower."""

    state: LinkState = LinkState.CONNECTING
    text: str = ""
    """What is wrong; only when lost or unreadable."""
    retry_at_s: float = 0.0
    """On the monotonic clock; only when lost."""


class Level(StrEnum):
    """How loudly a notice is shown."""

    CALM = "calm"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Notice:
    """A line to show, with a progress bar in front where there is progress."""

    level: Level
    text: str
    progress: float | None = None


_PHASE_LEVELS = {
    Phase.LOADING: Level.INFO,
    Phase.IDLE: Level.INFO,
    Phase.RESTARTING: Level.WARNING,
    Phase.STALLED: Level.ERROR,
    Phase.STOPPING: Level.WARNING,
    Phase.FAILED: Level.ERROR,
}


def notice_of(url: str, link: Link, status: Status | None, age_s: float, now_s: float, paused: bool) -> Notice:
    """The most pressing thing to say; `age_s` is how long ago the last good snapshot came."""
    if link.state is LinkState.LOST:
        wait_s = max(round(link.retry_at_s - now_s), 0)
        retry = f"retrying in {wait_s} s" if wait_s else "retrying now"
        return Notice(Level.ERROR, f"{link.text}; {retry}")
    if link.state is LinkState.UNREADABLE:
        return Notice(Level.ERROR, f"cannot read the daemon's snapshots; is it a newer version? {link.text}")
    if status is None:
        return Notice(Level.INFO, f"connecting to {url}")
    if age_s > SILENCE_S:
        return Notice(Level.WARNING, f"connected to {url}, but no snapshot for {age(age_s)}")
    if paused:
        return Notice(Level.INFO, "paused: the display stands still, p goes on")
    return _phase_notice(status)


def _phase_notice(status: Status) -> Notice:
    if status.phase is Phase.READY and status.degraded:
        return Notice(Level.WARNING, f"degraded: {status.degraded}")
    if status.phase is Phase.READY:
        return Notice(Level.CALM, totals(status.counters))
    progress = status.load_progress if status.phase is Phase.LOADING else None
    text = status.detail if progress is None else f"{percent(progress)}  {status.detail}"
    return Notice(_PHASE_LEVELS[status.phase], f"{status.phase}: {text}" if progress is None else text, progress)


def totals(counters: EngineCounters) -> str:
    """The engine's counters in one line."""
    parts = [
        f"{count(counters.requests)} requests",
        f"{count(counters.prompt_tokens)} prompt, {count(counters.cached_tokens)} reused",
        f"{count(counters.output_tokens)} out",
        f"{count(counters.preemptions)} preempted",
        f"{count(counters.rounds)} rounds",
    ]
    return " · ".join(parts)
