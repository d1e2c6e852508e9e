"""How many tokens to draft for each sequence of a round: the most expected tokens per second. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from homespec.engine.control.cost import Seconds

PREMIUM = 1.03
"""How much faster than plain a round with drafts that cost nothing to make must be expected to be: the best of many D
and drafters is in part the one that is overrated most. Drafters that take time are paused instead.
"""


class Bet(NamedTuple):
    """What one sequence could add to the round."""

    drafter: str
    survival: Sequence[float]
    """Probability that at least 1, 2, … tokens are taken; as long as the draft may be."""


class Choice(NamedTuple):
    """D for each bet, and what the round then comes to."""

    num_draft_tokens: tuple[int, ...]
    expected_tokens: float
    """Of all sequences, the target's own tokens included."""
    seconds: float

    @property
    def speed(self) -> float:
        return self.expected_tokens / self.seconds


def choose(
    bets: Sequence[Bet],
    *,
    num_tokens: int,
    num_rows: int,
    verify_s: Seconds,
    draft_s: Mapping[str, Seconds],
    rewind_s: float = 0.0,
) -> Choice:
    """The D of each bet with the most expected tokens per second.

    num_tokens and num_rows: what the round yields and decodes without any of the bets. verify_s: by row count.
    draft_s: of every drafter that takes time, by the D of its longest draft; 0 for none. rewind_s: of each bet that is
    placed.

    Tokens come in the order of their marginal gain, which is the best set for each total number of rows; every total is
    tried, so steps and dents in the cost of rows are seen through. A drafter that takes time is also left out
    altogether, because its first token may cost more than the others.
    """
    costly = {bet.drafter for bet in bets} & draft_s.keys()
    plain = best = Choice((0,) * len(bets), float(num_tokens), float(verify_s[num_rows]))
    for joining in {frozenset(), *(frozenset({name}) for name in costly), frozenset(costly)}:
        taking = [index for index, bet in enumerate(bets) if bet.drafter not in costly or bet.drafter in joining]
        choice = _best_prefix(bets, taking, num_tokens, num_rows, verify_s, draft_s, rewind_s)
        if choice is not None and choice.speed > best.speed:
            best = choice
    takes_time = any(depth and bet.drafter in draft_s for depth, bet in zip(best.num_draft_tokens, bets, strict=True))
    return best if pays(best.speed, plain.speed, takes_time=takes_time) else plain


def pays(speed: float, plain_speed: float, *, takes_time: bool) -> bool:
    """Whether a round with drafts is worth it, by expected tokens per second. takes_time: to make one of them."""
    return speed > (plain_speed if takes_time else PREMIUM * plain_speed)


def _best_prefix(
    bets: Sequence[Bet],
    taking: list[int],
    num_tokens: int,
    num_rows: int,
    verify_s: Seconds,
    draft_s: Mapping[str, Seconds],
    rewind_s: float,
) -> Choice | None:
    room = len(verify_s) - 1 - num_rows
    if not taking or room <= 0:
        return None
    gains = np.concatenate([bets[index].survival for index in taking])
    order = np.argsort(-gains, kind="stable")[:room]  # stable: of equal gains the earlier token comes first
    if not len(order):
        return None
    lengths = [len(bets[index].survival) for index in taking]
    owners = np.repeat(taking, lengths)[order]
    seconds = verify_s[num_rows + 1 : num_rows + 1 + len(order)].copy()
    for name in {bets[index].drafter for index in taking} & draft_s.keys():
        depths = np.concatenate([_depths(bets[index], name) for index in taking])[order]
        costs = draft_s[name]
        seconds += costs[np.minimum(np.maximum.accumulate(depths), len(costs) - 1)]
    if rewind_s:
        is_first = np.concatenate([np.arange(length) == 0 for length in lengths])[order]
        seconds += rewind_s * np.cumsum(is_first)
    tokens = num_tokens + np.cumsum(gains[order])
    last = int(np.argmax(tokens / seconds))
    counts = np.bincount(owners[: last + 1], minlength=len(bets))
    return Choice(tuple(int(count) for count in counts), float(tokens[last]), float(seconds[last]))


def _depths(bet: Bet, name: str) -> NDArray[np.intp]:
    """The D that a draft of `name` must have for each token of a bet; 0 for the tokens of others."""
    length = len(bet.survival)
    return np.arange(1, length + 1) if bet.drafter == name else np.zeros(length, np.intp)
