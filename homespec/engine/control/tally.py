"""What was expected, what came of it, and what deciding has cost."""

from __future__ import annotations

from dataclasses import dataclass

_MEMORY = 0.99
"""Per round: the last 100 rounds or so count. Fewer would tell more of luck than of what was expected."""


@dataclass(slots=True)
class Tally:
    """Fading sums over rounds; every ratio is None before the first."""

    _planned_tokens: float = 0.0
    _planned_s: float = 0.0
    _tokens: float = 0.0
    _spent_s: float = 0.0
    _plain_s: float = 0.0
    """Seconds that plain decoding would have needed for a token, times the tokens of each round."""
    _deciding_s: float = 0.0
    _decided: float = 0.0

    def add(
        self, *, planned_tokens: float, planned_s: float, tokens: int, spent_s: float, plain_token_s: float
    ) -> None:
        """One round. Times are those of draft and target pass."""
        self._planned_tokens = self._planned_tokens * _MEMORY + planned_tokens
        self._planned_s = self._planned_s * _MEMORY + planned_s
        self._tokens = self._tokens * _MEMORY + tokens
        self._spent_s = self._spent_s * _MEMORY + spent_s
        self._plain_s = self._plain_s * _MEMORY + plain_token_s * tokens

    def decided(self, seconds: float, num_sequences: int) -> None:
        self._deciding_s = self._deciding_s * _MEMORY + seconds
        self._decided = self._decided * _MEMORY + num_sequences

    @property
    def predicted_speedup(self) -> float | None:
        if not self._planned_s or not self._tokens:
            return None
        return self._planned_tokens / self._planned_s * (self._plain_s / self._tokens)

    @property
    def measured_speedup(self) -> float | None:
        return self._plain_s / self._spent_s if self._spent_s else None

    @property
    def decision_us(self) -> float | None:
        """Microseconds per sequence and round."""
        return self._deciding_s / self._decided * 1e6 if self._decided else None
