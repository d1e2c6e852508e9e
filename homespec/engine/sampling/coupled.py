"""Coupled sampling: target and drafter draw with the same noise, so equal distributions give equal tokens.

token = argmax(log p_i + Gumbel(seed, position, i)) is an exact sample from p (the Gumbel-max trick), and depends on
nothing but seed, position and p. A drafter that proposes argmax(log q_i + the same noise) is right with probability at
least (1 - TV)/(1 + TV), and whatever it proposes, the text stays the same (Daliri, Musco, Suresh, "Coupling without
Communication and Drafter-Invariant Speculative Decoding", arXiv 2408.07978). Temperature 0 is the limit: argmax.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from homespec.engine.sampling.chain import Candidates, Logits, adjust, only, shortlist
from homespec.engine.sampling.noise import GumbelNoise
from homespec.engine.sampling.sampler import Proposal
from homespec.frames import Sampling


class CoupledSampler:
    """See Sampler."""

    is_invariant = True

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._noise = GumbelNoise(sampling.seed)

    def propose(self, logits: Logits, token_ids: Sequence[int]) -> Proposal:
        """Without temperature, its confidence is the token's probability at temperature 1."""
        adjusted = adjust(logits, self.sampling, token_ids)
        if self.sampling.temperature <= 0.0:
            token_id = int(adjusted.argmax())
            return Proposal(token_id, confidence=float(1 / np.exp(adjusted - adjusted[token_id]).sum()))
        candidates = shortlist(adjusted, self.sampling)
        index = self._draw(candidates, len(token_ids))
        return Proposal(candidates.token_at(index), confidence=float(candidates.probabilities()[index]))

    def choose(
        self,
        logits: Logits,
        token_ids: Sequence[int],
        allowed: NDArray[np.bool_] | None = None,
        proposal: Proposal | None = None,
    ) -> int:
        """The position of the noise is len(token_ids). A tie goes to the lowest id."""
        adjusted = only(adjust(logits, self.sampling, token_ids), allowed)
        if self.sampling.temperature <= 0.0:
            return int(adjusted.argmax())
        candidates = shortlist(adjusted, self.sampling)
        return candidates.token_at(self._draw(candidates, len(token_ids)))

    def _draw(self, candidates: Candidates, position: int) -> int:
        """Index of the sample."""
        return self._noise.draw(position, candidates.ids(), candidates.scores)
