"""Drafters that lose are left alone for a growing time; now and then one draft shows whether that is still right."""

from __future__ import annotations

import math
from dataclasses import dataclass

FIRST_WAIT, LONGEST_WAIT = 4, 4096
_MEMORY = 0.97
"""Per round: the last 33 rounds or so count."""
_ENOUGH_ROUNDS = 16.0


@dataclass(slots=True)
class Pause:
    """One drafter's time in and out of use, counted in rounds."""

    reason: str = ""
    """Why it is paused, in numbers; empty while it is in use."""
    wait: int = FIRST_WAIT
    next_probe: int = 0
    begun: int = 0
    num_probes: int = 0
    """Since it began."""

    @property
    def is_on(self) -> bool:
        return bool(self.reason)

    def begin(self, now: int, reason: str) -> None:
        """It does not pay; again with newer numbers while it is paused."""
        if not self.is_on:
            self.begun, self.next_probe, self.num_probes = now, now + self.wait, 0
        self.reason = reason

    def has_lasted(self, now: int) -> bool:
        """It has been on without a break for as long as a wait may be."""
        return self.is_on and now - self.begun >= LONGEST_WAIT

    def is_due(self, now: int) -> bool:
        return self.is_on and now >= self.next_probe

    def probed(self, now: int, *, won: bool) -> None:
        """The outcome of a probe: what wins is tried again soon, what loses later and later."""
        self.wait = max(self.wait // 4, 1) if won else min(self.wait * 2, LONGEST_WAIT)
        self.next_probe = now + self.wait
        self.num_probes += 1

    def end(self) -> None:
        """It may be used again. The next wait does not start small at once: this may be luck."""
        if self.is_on:
            self.wait = max(self.wait // 2, FIRST_WAIT)
        self.reason = ""

    def text(self, now: int) -> str:
        return f"paused: {self.reason}; tried again in {max(self.next_probe - now, 0)} rounds"


@dataclass(slots=True)
class Ledger:
    """What the rounds of a drafter were really worth against plain decoding, whatever was expected of them.

    Fading sums over rounds, each divided by the number of its sequences.
    """

    _rounds: float = 0.0
    _tokens: float = 0.0
    _plain_rounds: float = 0.0
    _gain: float = 0.0
    _gain_squared: float = 0.0

    def add(self, tokens: float, plain_rounds: float) -> None:
        """A round that took the time of so many plain ones."""
        gain = tokens - plain_rounds
        self._rounds = self._rounds * _MEMORY + 1
        self._tokens = self._tokens * _MEMORY + tokens
        self._plain_rounds = self._plain_rounds * _MEMORY + plain_rounds
        self._gain = self._gain * _MEMORY + gain
        self._gain_squared = self._gain_squared * _MEMORY + gain * gain

    def loss(self) -> str | None:
        """The numbers, when plain decoding would have been faster beyond doubt (two standard errors); else None."""
        if self._rounds < _ENOUGH_ROUNDS:
            return None
        mean = self._gain / self._rounds
        variance = max(self._gain_squared / self._rounds - mean * mean, 0.0)
        if mean + 2 * math.sqrt(variance / self._rounds) >= 0:
            return None
        tokens, plain_rounds = self._tokens / self._rounds, self._plain_rounds / self._rounds
        return f"measured {tokens:.2f} tokens in the time of {plain_rounds:.2f} plain ones"
