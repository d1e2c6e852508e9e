"""Log-probabilities of the target, before any sampling setting. Pure."""

from __future__ import annotations

import numpy as np

from homespec.engine.sampling.chain import Logits
from homespec.frames import TokenLogprob


def token_logprob(logits: Logits, token_id: int, num_top: int) -> TokenLogprob:
    """Of the chosen token, and of the `num_top` likeliest ones, best first; a tie goes to the lower id."""
    row = logits.astype(np.float64)
    highest = row.max()
    normaliser = highest + np.log(np.exp(row - highest).sum())
    top: list[int] = []
    if num_top:
        few = np.argpartition(row, -num_top)[-num_top:]
        top = [int(token) for token in few[np.lexsort((few, -row[few]))]]
    return TokenLogprob(
        token_id=token_id,
        logprob=float(row[token_id] - normaliser),
        top=[(token, float(row[token] - normaliser)) for token in top],
    )
