"""What a sampler is: how drafts are proposed, and how the target judges them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from homespec.engine.sampling.chain import Candidates, Logits
from homespec.frames import Sampling


@dataclass(frozen=True, slots=True)
class Proposal:
    """A drafted token."""

    token_id: int
    distribution: Candidates | None = None
    """What it was drawn from; None for a point mass: the drafter would have proposed nothing else."""
    confidence: float | None = None
    """How likely the drafter holds it, given that the tokens before it are right; None where it cannot tell."""


class Sampler(Protocol):
    """Chooses the tokens of one request. Rows of logits are raw, shape (n_vocab,); `token_ids` is all before them."""

    sampling: Sampling
    is_invariant: bool
    """What is drafted makes no difference to what is chosen."""

    def propose(self, logits: Logits, token_ids: Sequence[int]) -> Proposal:
        """A drafter's token, from the drafter's logits."""
        ...

    def choose(
        self,
        logits: Logits,
        token_ids: Sequence[int],
        allowed: NDArray[np.bool_] | None = None,
        proposal: Proposal | None = None,
    ) -> int:
        """The target's token. Equal to the proposal when that is accepted, never otherwise.

        Tokens that are not `allowed` cannot be chosen; at least one must be.
        """
        ...
