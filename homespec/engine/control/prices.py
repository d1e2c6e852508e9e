"""What the tokens of one round cost, and what a bet on some of them comes to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from homespec.engine.control.choose import Bet, Choice, choose
from homespec.engine.control.cost import Seconds

_LOOK_AHEAD = 4
"""Rows over which the slope of a stepped cost is taken."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A bet with its D."""

    num_draft_tokens: int
    gain: float
    """Tokens that it adds."""
    seconds: float
    """Of the whole round."""
    speed: float
    """Tokens of the whole round per second."""


class Prices:
    """Of a round with so many sequences, in seconds."""

    def __init__(
        self,
        *,
        num_sequences: int,
        num_rows: int,
        verify_s: Seconds,
        rows: NDArray[np.intp],
        draft_s: Mapping[str, Seconds],
    ) -> None:
        """num_rows: that are decoded whatever is bet. verify_s, and rows to decode, by rows needed. draft_s: of the
        drafters that take time, by D."""
        self.num_sequences = num_sequences
        self.num_rows = num_rows
        self.verify_s = verify_s
        self.draft_s = draft_s
        self._rows = rows
        self._free_s: list[float] = verify_s[num_rows + 1 :].tolist()
        """Of the round by D of one bet, from 1."""
        self._bet_s = {name: self._with_draft(seconds) for name, seconds in draft_s.items()}
        self.plain_s = float(verify_s[num_rows])
        """Of the round without any bet."""

    @property
    def has_room(self) -> bool:
        """Whether the target can take any draft token at all."""
        return bool(self._free_s)

    def choose(self, bets: Sequence[Bet]) -> Choice:
        """D for each bet."""
        if len(bets) == 1 and self.has_room:  # the usual case, without what it takes to share the rows
            best = self.alone(bets[0])
            if best.speed * self.plain_s > self.num_sequences:
                return Choice((best.num_draft_tokens,), self.num_sequences + best.gain, best.seconds)
            return Choice((0,), float(self.num_sequences), self.plain_s)
        return choose(
            bets,
            num_tokens=self.num_sequences,
            num_rows=self.num_rows,
            verify_s=self.verify_s,
            draft_s=self.draft_s,
        )

    def alone(self, bet: Bet, num_draft_tokens: int | None = None) -> Placed:
        """The round if only this bet were placed, with its best D of at least 1 or the given one. Needs `has_room`."""
        tokens, best_index, best_tokens, best_speed = float(self.num_sequences), 0, 0.0, 0.0
        by_depth = self._bet_s.get(bet.drafter, self._free_s)
        for index, (chance, seconds) in enumerate(zip(bet.survival, by_depth, strict=False)):
            tokens += chance
            if (num_draft_tokens is None and tokens > best_speed * seconds) or index + 1 == num_draft_tokens:
                best_index, best_tokens, best_speed = index, tokens, tokens / seconds
        return Placed(best_index + 1, best_tokens - self.num_sequences, by_depth[best_index], best_speed)

    def probe(self, bet: Bet) -> tuple[int, float]:
        """The D of at least 1 that loses least against plain decoding, and how many seconds. Needs `has_room`."""
        token_s = self.plain_s / self.num_sequences
        gain, best = 0.0, (1, float("inf"))
        by_depth = self._bet_s.get(bet.drafter, self._free_s)
        for index, (chance, seconds) in enumerate(zip(bet.survival, by_depth, strict=False)):
            gain += chance
            loss_s = seconds - self.plain_s - gain * token_s
            if loss_s < best[1]:
                best = index + 1, loss_s
        return best

    def rows_to_decode(self, rows: int) -> int:
        """With those that fill the pass up."""
        return int(self._rows[rows]) if rows < len(self._rows) else rows

    def catch_up_s(self, drafter: str, num_tokens: int) -> float:
        """Seconds that a drafter needs for tokens that it has not followed, by the shape of the target's own cost."""
        share = float(self.draft_s[drafter][1]) / float(self.verify_s[1])
        return share * float(self.verify_s[min(num_tokens, len(self.verify_s) - 1)])

    def marginal_s(self, drafter: str, num_draft_tokens: int) -> float:
        """Seconds that one more draft token costs after so many, drafted and verified."""
        draft_s = self.draft_s[drafter]
        last = len(draft_s) - 1
        drafting = draft_s[min(num_draft_tokens + 1, last)] - draft_s[min(num_draft_tokens, last)]
        rows = self.num_rows + num_draft_tokens
        ahead = self.verify_s[rows + 1 : rows + 1 + _LOOK_AHEAD]
        if not len(ahead):
            return float("inf")
        slopes = (ahead - self.verify_s[rows]) / np.arange(1, len(ahead) + 1)
        return float(drafting + slopes.min())

    def _with_draft(self, draft_s: Seconds) -> list[float]:
        depths = np.arange(1, len(self._free_s) + 1)
        seconds: list[float] = (self._free_s + draft_s[np.minimum(depths, len(draft_s) - 1)]).tolist()
        return seconds
