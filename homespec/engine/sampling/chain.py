"""The sampling chain, in llama.cpp's order: logit bias, penalties, top_k, top_p, min_p, temperature. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from homespec.frames import Sampling

Logits = NDArray[np.float32]
_FIRST_NUCLEUS = 256


@dataclass(frozen=True, slots=True)
class Candidates:
    """The tokens that may be sampled, with unnormalised log-probabilities at the request's temperature."""

    token_ids: NDArray[np.intp] | None
    """None: every token, in order of id."""
    scores: NDArray[np.float64]

    def ids(self) -> NDArray[np.intp]:
        return np.arange(len(self.scores)) if self.token_ids is None else self.token_ids

    def token_at(self, index: int) -> int:
        return index if self.token_ids is None else int(self.token_ids[index])

    def probabilities(self) -> NDArray[np.float64]:
        weights = np.exp(self.scores - self.scores.max())
        return weights / weights.sum()  # type: ignore[no-any-return]


def adjust(logits: Logits, sampling: Sampling, token_ids: Sequence[int]) -> Logits:
    """Logit bias and penalties. `token_ids` is everything before this row, prompt included.

    Returns `logits` itself when there is nothing to do, else a copy. Repetition penalty as in CTRL (Keskar et al.
    2019, §4.1); presence and frequency as in llama.cpp's penalties sampler, over the last `repeat_last_n` tokens.
    """
    penalised = sampling.repeat_penalty != 1.0 or sampling.presence_penalty or sampling.frequency_penalty
    if not (penalised or sampling.logit_bias):
        return logits
    adjusted = logits.copy()
    if sampling.logit_bias:
        add_bias(adjusted, sampling.logit_bias)
    if penalised and sampling.repeat_last_n:
        window = token_ids if sampling.repeat_last_n < 0 else token_ids[-sampling.repeat_last_n :]
        ids, counts = np.unique(np.asarray(window, dtype=np.intp), return_counts=True)
        seen = adjusted[ids]
        seen = np.where(seen > 0, seen / sampling.repeat_penalty, seen * sampling.repeat_penalty)
        adjusted[ids] = seen - (counts * sampling.frequency_penalty + sampling.presence_penalty)
    return adjusted


def add_bias(logits: Logits, bias: Mapping[int, float]) -> None:
    """Add the request's logit bias in place."""
    for token_id, value in bias.items():
        logits[token_id] += value


def only(logits: Logits, allowed: NDArray[np.bool_] | None) -> Logits:
    """Logits in which tokens that a constraint forbids cannot win; `logits` itself without a constraint."""
    return logits if allowed is None else np.where(allowed, logits, np.float32(-np.inf))


def shortlist(logits: Logits, sampling: Sampling) -> Candidates:
    """Apply top_k, top_p, min_p and temperature to adjusted logits; temperature must be above 0."""
    token_ids, kept = _top_k(logits, sampling.top_k)
    if sampling.top_p < 1.0:
        token_ids, kept = _top_p(token_ids, kept, sampling.top_p)
    if sampling.min_p > 0.0:
        token_ids, kept = _keep(token_ids, kept, kept >= kept.max() + np.log(sampling.min_p))
    # Centred first, so that a tiny temperature overflows to -inf and never to inf - inf.
    with np.errstate(over="ignore"):
        scores = (kept.astype(np.float64) - float(kept.max())) / sampling.temperature
    return Candidates(token_ids, scores)


def _top_k(logits: Logits, top_k: int) -> tuple[NDArray[np.intp] | None, Logits]:
    if top_k <= 0 or top_k >= len(logits):
        return None, logits
    ids = np.sort(np.argpartition(logits, -top_k)[-top_k:])
    return ids, logits[ids]


def _top_p(token_ids: NDArray[np.intp] | None, logits: Logits, top_p: float) -> tuple[NDArray[np.intp] | None, Logits]:
    """Smallest set of the likeliest tokens whose mass reaches `top_p` (Holtzman et al. 2020); at least one."""
    weights = np.exp(logits.astype(np.float64) - float(logits.max()))
    goal = top_p * weights.sum()
    size = _FIRST_NUCLEUS
    while True:
        # A full sort of a large vocabulary costs more than the decode of a small model: look at the top first.
        few = np.arange(len(weights)) if size >= len(weights) else np.argpartition(weights, -size)[-size:]
        order = few[np.lexsort((few, -weights[few]))]
        mass = np.cumsum(weights[order])
        if mass[-1] >= goal or size >= len(weights):
            break
        size *= 8
    nucleus = np.sort(order[: int(np.searchsorted(mass, goal)) + 1])
    return (nucleus if token_ids is None else token_ids[nucleus]), logits[nucleus]


def _keep(
    token_ids: NDArray[np.intp] | None, logits: Logits, mask: NDArray[np.bool_]
) -> tuple[NDArray[np.intp] | None, Logits]:
    kept = np.flatnonzero(mask)
    return (kept if token_ids is None else token_ids[kept]), logits[kept]
