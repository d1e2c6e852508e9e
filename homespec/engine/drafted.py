"""The draft of one sequence in one round."""

from __future__ import annotations

from dataclasses import dataclass

from homespec.engine.control.decision import Decision
from homespec.engine.sampling.sampler import Proposal

GRAMMAR = "grammar"
"""Name of the drafter that proposes what a constraint forces; it needs no model and no memory."""


@dataclass(frozen=True, slots=True)
class Drafted:
    """What is drafted and by whom, or why there is nothing."""

    drafter: str | None
    proposals: list[Proposal]
    reason: str = ""
    decision: Decision | None = None
    """The controller's, where it was asked."""

    @classmethod
    def forced(cls, token_ids: list[int]) -> Drafted:
        """What a constraint leaves no choice about."""
        return cls(GRAMMAR, [Proposal(token, confidence=1.0) for token in token_ids])

    @property
    def token_ids(self) -> list[int]:
        return [proposal.token_id for proposal in self.proposals]

    @property
    def confidences(self) -> list[float | None]:
        return [proposal.confidence for proposal in self.proposals]

    def proposal(self, row: int) -> Proposal | None:
        """What row `row` judges; None for the row of the bonus token."""
        return self.proposals[row] if row < len(self.proposals) else None
