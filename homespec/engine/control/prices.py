"""What the tokens of one round cost, and what a bet on some of them comes to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import truediv
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from homespec.engine.control.choose import Bet, Choice, choose, pays
from homespec.engine.control.cost import Seconds

_LOOK_AHEAD = 4
"""Rows over which the slope of a stepped cost is taken."""


class Placed(NamedTuple):
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
        rewind_s: float = 0.0,
    ) -> None:
        """num_rows: that are decoded whatever is bet. verify_s, and rows to decode, by rows needed. draft_s: of the
        drafters that take time, by D. rewind_s: of every sequence that drafts."""
        self.num_sequences = num_sequences
        self.num_rows = num_rows
        self.verify_s = verify_s
        self.draft_s = draft_s
        self.rewind_s = rewind_s
        self._rows: list[int] = rows.tolist()
        self._verify_s: list[float] = verify_s.tolist()
        free_s = verify_s[num_rows + 1 :] + rewind_s
        depths = np.arange(1, len(free_s) + 1)
        self._free_s: list[float] = free_s.tolist()
        """Of the round by D of one bet, from 1."""
        self._bet_s: dict[str, list[float]] = {
            name: (free_s + seconds[np.minimum(depths, len(seconds) - 1)]).tolist() for name, seconds in draft_s.items()
        }
        self.plain_s = self._verify_s[num_rows]
        """Of the round without any bet."""
        self.sequences_s = self._verify_s[min(num_sequences, num_rows)]
        """Of the round without any draft at all."""
        self.one_row_s = self._verify_s[1]

    @property
    def has_room(self) -> bool:
        """Whether the target can take any draft token at all."""
        return bool(self._free_s)

    def choose(self, bets: Sequence[Bet]) -> Choice:
        """D for each bet."""
        if not bets or not self.has_room:
            return self.without(len(bets))
        if len(bets) == 1:  # the usual case, without what it takes to share the rows
            return self.choose_alone(bets[0], self.best(bets[0]))
        return choose(
            bets,
            num_tokens=self.num_sequences,
            num_rows=self.num_rows,
            verify_s=self.verify_s,
            draft_s=self.draft_s,
            rewind_s=self.rewind_s,
        )

    def choose_alone(self, bet: Bet, best: Placed) -> Choice:
        """Place this bet, or none."""
        if pays(best.speed, self.num_sequences / self.plain_s, takes_time=bet.drafter in self.draft_s):
            return Choice((best.num_draft_tokens,), self.num_sequences + best.gain, best.seconds)
        return self.without(1)

    def without(self, num_bets: int) -> Choice:
        """No bet at all."""
        return Choice((0,) * num_bets, float(self.num_sequences), self.plain_s)

    def best(self, bet: Bet) -> Placed:
        """The round if only this bet were placed, with its best D of at least 1. Needs `has_room`."""
        by_depth = self._by_depth(bet)
        tokens = list(accumulate(bet.survival, initial=float(self.num_sequences)))
        speeds = list(map(truediv, tokens[1:], by_depth))  # by D from 1, as far as there is room
        speed = max(speeds)
        index = speeds.index(speed)
        return Placed(index + 1, tokens[index + 1] - self.num_sequences, by_depth[index], speed)

    def affordable(self, bet: Bet, plain_rounds: float) -> Bet:
        """The same with no more tokens than could be lost for so many plain rounds."""
        limit_s = (1.0 + plain_rounds) * self.plain_s
        by_depth = self._by_depth(bet)
        depth = min(len(bet.survival), len(by_depth))
        while depth and by_depth[depth - 1] > limit_s:
            depth -= 1
        return bet if depth == len(bet.survival) else Bet(bet.drafter, bet.survival[:depth])

    def seconds(self, bet: Bet, num_draft_tokens: int) -> float:
        """Of the round if only this bet were placed, with a D of at least 1."""
        return self._by_depth(bet)[num_draft_tokens - 1]

    def probe(self, bet: Bet) -> tuple[int, float]:
        """The D of at least 1 that loses least against plain decoding, and how many seconds. Needs `has_room`."""
        token_s = self.plain_s / self.num_sequences
        gain, best = 0.0, (1, float("inf"))
        by_depth = self._by_depth(bet)
        for index, (chance, seconds) in enumerate(zip(bet.survival, by_depth, strict=False)):
            gain += chance
            loss_s = seconds - self.plain_s - gain * token_s
            if loss_s < best[1]:
                best = index + 1, loss_s
        return best

    def rows_to_decode(self, rows: int) -> int:
        """With those that fill the pass up."""
        return self._rows[rows] if rows < len(self._rows) else rows

    def catch_up_s(self, drafter: str, num_tokens: int) -> float:
        """Seconds that a drafter needs for tokens that it has not followed, by the shape of the target's own cost."""
        token_s, rows = float(self.draft_s[drafter][1]), min(num_tokens, len(self._verify_s) - 1)
        seconds: float = token_s / self.one_row_s * self._verify_s[rows]
        return seconds

    def marginal_s(self, drafter: str, num_draft_tokens: int) -> float:
        """Seconds that one more draft token costs after so many, drafted and verified."""
        draft_s, rows = self.draft_s[drafter], self.num_rows + num_draft_tokens
        last = len(draft_s) - 1
        drafting = float(draft_s[min(num_draft_tokens + 1, last)] - draft_s[min(num_draft_tokens, last)])
        ahead = self._verify_s[rows + 1 : rows + 1 + _LOOK_AHEAD]
        slopes = [(seconds - self._verify_s[rows]) / step for step, seconds in enumerate(ahead, start=1)]
        return drafting + min(slopes, default=float("inf"))

    def _by_depth(self, bet: Bet) -> list[float]:
        """Seconds of the round if only this bet were placed, by D from 1."""
        return self._bet_s.get(bet.drafter, self._free_s)
