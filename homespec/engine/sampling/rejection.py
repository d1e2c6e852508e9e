"""Speculative sampling by rejection: the highest acceptance there is, but the text depends on the drafter.

A draft token x drawn from q is accepted with probability min(1, p(x)/q(x)); else the token is drawn from the normalised
(p - q)+. The result is an exact sample from p (Leviathan, Kalman, Matias, arXiv 2211.17192, §2.3 and A.1; Chen et al.,
arXiv 2302.01318, Algorithm 2). The draw of the draft, the test and the second draw use noise of their own: noise shared
with the drafter would bias the test.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from homespec.engine.sampling.chain import Candidates, Logits, adjust, only, shortlist
from homespec.engine.sampling.noise import GumbelNoise
from homespec.engine.sampling.sampler import Proposal
from homespec.frames import Sampling

_DRAFT, _TEST, _TARGET = 1, 2, 3


class RejectionSampler:
    """See Sampler. Greedy requests need no draws: use CoupledSampler for them."""

    is_invariant = False

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._draft_noise = GumbelNoise(sampling.seed, stream=_DRAFT)
        self._test_noise = GumbelNoise(sampling.seed, stream=_TEST)
        self._target_noise = GumbelNoise(sampling.seed, stream=_TARGET)

    def propose(self, logits: Logits, token_ids: Sequence[int]) -> Proposal:
        """A token drawn from q, with q."""
        candidates = shortlist(adjust(logits, self.sampling, token_ids), self.sampling)
        token_id = _draw(candidates, self._draft_noise, len(token_ids))
        return Proposal(token_id, candidates, _probability(candidates.probabilities(), candidates, token_id))

    def choose(
        self,
        logits: Logits,
        token_ids: Sequence[int],
        allowed: NDArray[np.bool_] | None = None,
        proposal: Proposal | None = None,
    ) -> int:
        candidates = shortlist(only(adjust(logits, self.sampling, token_ids), allowed), self.sampling)
        position = len(token_ids)
        if proposal is None:
            return _draw(candidates, self._target_noise, position)
        p, q = candidates.probabilities(), _aligned(proposal, candidates)
        p_drafted = _probability(p, candidates, proposal.token_id)
        q_drafted = _proposed_probability(proposal)
        if self._test_noise.uniform(position) * q_drafted < p_drafted:
            return proposal.token_id
        residual = np.maximum(p - q, 0.0)
        if not residual.any():  # p equals q up to rounding: the rejection itself was rounding
            residual = p
        with np.errstate(divide="ignore"):
            rest = Candidates(candidates.token_ids, np.log(residual))
        return _draw(rest, self._target_noise, position)


def _draw(candidates: Candidates, noise: GumbelNoise, position: int) -> int:
    return candidates.token_at(noise.draw(position, candidates.ids(), candidates.scores))


def _aligned(proposal: Proposal, candidates: Candidates) -> NDArray[np.float64]:
    """q on the target's candidates; mass outside of them matters to nobody."""
    ids = candidates.ids()
    if proposal.distribution is None:
        return np.equal(ids, proposal.token_id).astype(np.float64)
    q_ids = proposal.distribution.ids()
    q: NDArray[np.float64] = proposal.distribution.probabilities()
    # Candidate ids are in ascending order.
    places = np.minimum(np.searchsorted(q_ids, ids), len(q_ids) - 1)
    aligned: NDArray[np.float64] = np.where(q_ids[places] == ids, q[places], 0.0)
    return aligned


def _probability(probabilities: NDArray[np.float64], candidates: Candidates, token_id: int) -> float:
    found = np.flatnonzero(candidates.ids() == token_id)
    return float(probabilities[found[0]]) if len(found) else 0.0


def _proposed_probability(proposal: Proposal) -> float:
    if proposal.distribution is None:
        return 1.0
    return _probability(proposal.distribution.probabilities(), proposal.distribution, proposal.token_id)
