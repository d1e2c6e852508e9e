"""What a drafter is to the rest of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal
from homespec.status import ModelMemory

Propose = Callable[[Logits, Sequence[int]], Proposal]
ShouldContinue = Callable[[int, float | None], bool]
"""After a draft token at this position (from 0) with this confidence: whether the next one is worth making."""


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """One sequence that wants a draft this round."""

    slot_id: int
    token_ids: list[int]
    """Prompt and output so far; the target has not decoded the last one. Not to be changed."""
    max_tokens: int
    """At least 1."""
    propose: Propose
    """The request's own sampler: a drafter with logits picks its tokens with it, so that equal logits give equal
    tokens."""
    partition: str = ""
    """What requests of other partitions have said must not show in this one's drafts."""
    min_confidence: float = 0.0
    """A drafter that knows how sure it is proposes nothing when it is less sure of its first token: another one is
    asked then."""
    should_continue: ShouldContinue | None = None
    """Asked after each token by a drafter whose next one takes time; None: up to `max_tokens`."""

    def is_met(self, draft: Sequence[Proposal], is_end: Callable[[int], bool]) -> bool:
        """Whether such a drafter has drafted enough, also because the text ends; at least one token must be there."""
        if len(draft) >= self.max_tokens or is_end(draft[-1].token_id):
            return True
        goes_on = self.should_continue
        return goes_on is not None and not goes_on(len(draft) - 1, draft[-1].confidence)


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposed tokens, or why there are none."""

    proposals: list[Proposal]
    reason: str = ""

    @property
    def token_ids(self) -> list[int]:
        return [proposal.token_id for proposal in self.proposals]


class Drafter(Protocol):
    """Proposes tokens for all sequences of a round in one call. Owned by the scheduler thread.

    A drafter is never trusted: a wrong, short or empty draft costs time, not correctness. It must cope with rounds it
    was not asked about, by comparing what it holds with the tokens it is given.
    """

    name: str
    memory: ModelMemory

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        """A new sequence in `slot_id`; its first `num_shared` tokens are those of `source_id`, if that is given."""
        ...

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        """The target has decoded `token_ids` (all from position 0). May do at most one chunk of work."""
        ...

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        """One draft per request, in order. Raises DecodeError when the drafter is broken."""
        ...

    def close(self, slot_id: int) -> None:
        """Forget the slot."""
        ...

    def shutdown(self) -> None:
        """Give all memory back. The drafter is not used afterwards."""
        ...
