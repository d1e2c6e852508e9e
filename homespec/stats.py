"""Counts of speculative rounds and the rates that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_DRAFT_TOKENS = 16
"""Ceiling of D: sizes the target's output buffer, so no setting may go over it."""


@dataclass(slots=True)
class DraftStats:
    """What drafting did, summed over rounds. Rates are None where nothing was drafted, never zero.

    Names follow vLLM's counters: a *draft* is one round in which at least one token was proposed.
    """

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_per_position: list[int] = field(default_factory=list)
    """Entry i: rounds in which draft token i (from 0) was accepted. Never increasing."""

    def add_round(self, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Count one round; does nothing for an empty draft."""
        if not num_draft_tokens:
            return
        self.num_drafts += 1
        self.num_draft_tokens += num_draft_tokens
        self.num_accepted_tokens += num_accepted_tokens
        self._widen(num_accepted_tokens)
        for position in range(num_accepted_tokens):
            self.num_accepted_per_position[position] += 1

    def add(self, other: DraftStats, sign: int = 1) -> None:
        """Add another tally to this one; `sign=-1` takes it away."""
        self.num_drafts += sign * other.num_drafts
        self.num_draft_tokens += sign * other.num_draft_tokens
        self.num_accepted_tokens += sign * other.num_accepted_tokens
        self._widen(len(other.num_accepted_per_position))
        for position, count in enumerate(other.num_accepted_per_position):
            self.num_accepted_per_position[position] += sign * count

    def copy(self) -> DraftStats:
        return DraftStats(
            self.num_drafts, self.num_draft_tokens, self.num_accepted_tokens, list(self.num_accepted_per_position)
        )

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted ÷ drafted."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else None

    @property
    def acceptance_length(self) -> float | None:
        """Tokens per drafting round, the bonus token included (vLLM's convention)."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else None

    @property
    def draft_length(self) -> float | None:
        """Mean number of tokens proposed per drafting round."""
        return self.num_draft_tokens / self.num_drafts if self.num_drafts else None

    @property
    def acceptance_per_position(self) -> list[float]:
        """Share of drafting rounds that accepted position i."""
        return [count / self.num_drafts for count in self.num_accepted_per_position] if self.num_drafts else []

    def _widen(self, num_positions: int) -> None:
        missing = num_positions - len(self.num_accepted_per_position)
        self.num_accepted_per_position.extend([0] * max(missing, 0))
