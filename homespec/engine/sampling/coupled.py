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

from homespec.engine.sampling.chain import Logits, adjust, shortlist
from homespec.engine.sampling.noise import GumbelNoise
from homespec.frames import Sampling


class CoupledSampler:
    """Chooses the tokens of one request, for verified rows and for drafts alike."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._noise = GumbelNoise(sampling.seed)

    def choose(self, logits: Logits, token_ids: Sequence[int], allowed: NDArray[np.bool_] | None = None) -> int:
        """The token that follows `token_ids`, from its row of raw logits, shape (n_vocab,).

        The position of the noise is len(token_ids). Tokens that are not `allowed` cannot be chosen; at least one must
        be. A tie goes to the lowest id.
        """
        adjusted = adjust(logits, self.sampling, token_ids)
        if allowed is not None:
            adjusted = np.where(allowed, adjusted, np.float32(-np.inf))
        if self.sampling.temperature <= 0.0:
            return int(adjusted.argmax())
        candidates = shortlist(adjusted, self.sampling)
        noise = self._noise.at(len(token_ids), candidates.ids())
        return candidates.token_at(int(np.argmax(candidates.scores + noise)))
