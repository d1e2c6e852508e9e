"""What may not be bet on, and how much may be lost on finding out."""

from __future__ import annotations

from collections import defaultdict

from homespec.engine.control.pause import LONGEST_WAIT, Ledger, Pause

PROBE_SHARE = 0.015
"""Of all decoding time. The promise is 2 %: a probe is known to be over only when it is paid."""
_FIRST_PROBES = 6.0
"""Plain rounds' worth of time that may be lost on learning what a new drafter is good for."""
_ENOUGH_PROBES = 4
"""Fewer within a pause say too little: perhaps other drafters had the text to themselves."""
_FIRST_WAIT_OF_LOSER = 256
"""A drafter that lost by the clock gets some twenty rounds to show better: that must stay a small share."""


class Restraint:
    """Pauses, ledgers and the budget of probes, over all drafters."""

    def __init__(self) -> None:
        self._turned_down: defaultdict[str, Pause] = defaultdict(Pause)
        """Not worth it by expectation: only probes."""
        self._lost: defaultdict[str, Pause] = defaultdict(lambda: Pause(wait=_FIRST_WAIT_OF_LOSER))
        """Not worth it by the clock, whatever was expected."""
        self._ledgers: defaultdict[str, Ledger] = defaultdict(Ledger)
        self._allowed_s: float | None = None
        self._spent_s = 0.0

    def begin_round(self, plain_round_s: float) -> None:
        """One sequence alone, without a draft, takes so long."""
        if self._allowed_s is None:
            self._allowed_s = _FIRST_PROBES * plain_round_s

    def pass_time(self, seconds: float) -> None:
        """So much time went into decoding."""
        assert self._allowed_s is not None
        self._allowed_s += PROBE_SHARE * seconds

    def can_afford(self, seconds: float) -> bool:
        return self._allowed_s is not None and self._spent_s + seconds <= self._allowed_s

    def spend(self, seconds: float) -> None:
        """A probe took so much longer than plain decoding of what it yielded; negative when it won."""
        self._spent_s = max(self._spent_s + seconds, 0.0)

    def is_allowed(self, drafter: str, now: int) -> bool:
        """False while the drafter is out of use because it lost by the clock. When the time is over it starts anew."""
        lost = self._lost[drafter]
        if lost.is_due(now):
            lost.end()
            lost.wait = min(lost.wait * 4, LONGEST_WAIT)  # twice as long as the last time, if it loses again
            self._ledgers[drafter] = Ledger()
        return not lost.is_on

    def turn_down(self, drafter: str, now: int, reason: str) -> None:
        """By expectation it is not worth its time."""
        self._turned_down[drafter].begin(now, reason)

    def resume(self, drafter: str) -> None:
        self._turned_down[drafter].end()

    def is_paused(self, drafter: str) -> bool:
        return self._turned_down[drafter].is_on

    def is_due(self, drafter: str, now: int) -> bool:
        """Time for a probe."""
        return self._turned_down[drafter].is_due(now)

    def probed(self, drafter: str, now: int, *, won: bool) -> None:
        self._turned_down[drafter].probed(now, won=won)

    def book(self, drafter: str, now: int, tokens: float, plain_rounds: float) -> None:
        """A round with its drafts yielded so many tokens per sequence, in the time of so many plain rounds."""
        ledger = self._ledgers[drafter]
        ledger.add(tokens, plain_rounds)
        if (loss := ledger.loss()) is not None:
            self._lost[drafter].begin(now, loss)

    def hopeless(self, now: int) -> dict[str, str]:
        """Drafters that have not been worth a bet for long, however often they were tried; with what was found last."""
        tried = [(name, pause) for name, pause in self._turned_down.items() if pause.num_probes >= _ENOUGH_PROBES]
        return {name: pause.reason for name, pause in [*tried, *self._lost.items()] if pause.has_lasted(now)}

    def forgive(self, drafter: str) -> None:
        """It starts anew."""
        for records in (self._turned_down, self._lost, self._ledgers):
            records.pop(drafter, None)

    def reasons(self, now: int) -> dict[str, str]:
        """Of every drafter that is paused, in numbers."""
        pauses = [*self._turned_down.items(), *self._lost.items()]
        return {name: pause.text(now) for name, pause in pauses if pause.is_on}
