"""When a model drafter stops inside its block: the next token no longer pays."""

from __future__ import annotations

from homespec.engine.control.acceptance import Growing
from homespec.engine.control.choose import Bet
from homespec.engine.control.prices import Prices


class EarlyStop:
    """One draft while it grows. Called with each new token; see `DraftRequest.should_continue`.

    A further token pays while the chance that the target takes it, divided by what it costs to draft and verify, is
    above the speed of the round as it was planned.
    """

    def __init__(self, growing: Growing, bet: Bet, prices: Prices, speed: float, num_tokens: int) -> None:
        """bet: with what is believed of the draft before it exists. speed: tokens per second of the round."""
        self._growing = growing
        self._bet = bet
        self._prices = prices
        self._speed = speed
        self._num_tokens = num_tokens

    def __call__(self, position: int, confidence: float | None) -> bool:
        if position + 1 >= self._num_tokens:
            return False
        if confidence is None:
            return True  # the planned D was chosen without confidences, and goes on without
        believed = self._bet.survival
        taken_next = believed[position + 1] / max(believed[position], 1e-9)
        gain = self._growing.add(confidence) * taken_next
        return gain >= self._speed * self._prices.marginal_s(self._bet.drafter, position + 1)
