"""When a model drafter stops inside its block: the next token no longer pays."""

from __future__ import annotations

from homespec.engine.control.acceptance import Acceptance
from homespec.engine.control.prices import Prices


class EarlyStop:
    """One draft while it grows. Called with each new token; see `DraftRequest.should_continue`.

    A further token pays while the chance that the target takes it, divided by what it costs to draft and verify, is
    above the speed of the round as it was planned.
    """

    def __init__(
        self, acceptance: Acceptance, sequence_id: str, drafter: str, prices: Prices, speed: float, num_tokens: int
    ) -> None:
        self._acceptance = acceptance
        self._sequence_id = sequence_id
        self._drafter = drafter
        self._prices = prices
        self._speed = speed
        self._blind = acceptance.forecast(sequence_id, num_tokens).survival
        self._confidences: list[float] = []

    def __call__(self, position: int, confidence: float | None) -> bool:
        if position + 1 >= len(self._blind):
            return False
        if confidence is None:
            return True  # the planned D was chosen without confidences, and goes on without
        self._confidences.append(confidence)
        forecast = self._acceptance.forecast(self._sequence_id, len(self._confidences), self._confidences)
        taken_next = self._blind[position + 1] / max(self._blind[position], 1e-9)
        gain = float(forecast.survival[-1] * taken_next)
        return gain >= self._speed * self._prices.marginal_s(self._drafter, position + 1)
