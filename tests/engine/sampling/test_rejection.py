"""Rejection sampling draws exactly from p, whatever q is, at every depth of a block; and faults would be seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from homespec.engine.sampling.accept import accept
from homespec.engine.sampling.chain import Candidates, adjust, only, shortlist
from homespec.engine.sampling.noise import GumbelNoise
from homespec.engine.sampling.rejection import RejectionSampler
from homespec.engine.sampling.sampler import Proposal
from homespec.frames import Sampling

NUM_TOKENS = 12
NUM_DRAWS = 131_072
"""Over the four tests together."""
Z_LIMIT = 3.1
"""One-sided limit for p = 0.001."""

PLAIN: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
FULL: dict[str, Any] = {
    "temperature": 0.8,
    "top_k": 9,
    "top_p": 0.95,
    "min_p": 0.01,
    "repeat_penalty": 1.3,
    "presence_penalty": 0.4,
}
NO_FOURTH = np.arange(NUM_TOKENS) != 3

_generator = np.random.default_rng(4)
# Row i: logits after token i, of a target and of a drafter that is wrong in a lively way.
TARGET: NDArray[np.float32] = _generator.normal(0, 1.4, (NUM_TOKENS, NUM_TOKENS)).astype(np.float32)
DRAFTER: NDArray[np.float32] = (TARGET + _generator.normal(0, 1.0, TARGET.shape)).astype(np.float32)

MakeSampler = Callable[[Sampling], RejectionSampler]


def draw_block(sampler: RejectionSampler, depth: int, allowed: NDArray[np.bool_] | None) -> list[int]:
    """The tokens after [0] that one round of `depth` draft tokens gives."""
    drafted = [0]
    proposals: list[Proposal] = []
    for _ in range(depth):
        proposals.append(sampler.propose(DRAFTER[drafted[-1]], drafted))
        drafted.append(proposals[-1].token_id)
    kept = [0]

    def choose(row: int) -> int:
        proposal = proposals[row] if row < depth else None
        return sampler.choose(TARGET[kept[-1]], kept, allowed, proposal)

    for token, _ in accept([proposal.token_id for proposal in proposals], choose):
        kept.append(token)
    return kept[1:]


def expected_joint(sampling: Sampling, allowed: NDArray[np.bool_] | None) -> NDArray[np.float64]:
    """Probability of each pair of first and second token, by the chain alone."""
    joint = np.zeros((NUM_TOKENS, NUM_TOKENS))
    for first, p_first in enumerate(distribution([0], sampling, allowed)):
        if p_first:
            joint[first] = p_first * distribution([0, first], sampling, allowed)
    return joint


def distribution(
    token_ids: Sequence[int], sampling: Sampling, allowed: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    candidates = shortlist(only(adjust(TARGET[token_ids[-1]], sampling, token_ids), allowed), sampling)
    dense = np.zeros(NUM_TOKENS)
    dense[candidates.ids()] = candidates.probabilities()
    return dense


def z_score(counts: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Chi-squared of counts against probabilities, by the Wilson-Hilferty normal approximation."""
    total = counts.sum()
    possible = expected * total >= 5
    assert counts[expected == 0].sum() == 0
    rest = np.array([counts[~possible].sum(), expected[~possible].sum() * total])
    observed = np.append(counts[possible], rest[0])
    wanted = np.append(expected[possible] * total, max(rest[1], 1e-9))
    if rest[1] < 5:
        observed, wanted = observed[:-1], wanted[:-1]
    chi_squared = float(((observed - wanted) ** 2 / wanted).sum())
    freedom = len(wanted) - 1
    spread = 2 / (9 * freedom)
    return float(((chi_squared / freedom) ** (1 / 3) - (1 - spread)) / np.sqrt(spread))


def joint_z(
    make: MakeSampler, settings: dict[str, Any], depth: int, draws: int, allowed: NDArray[np.bool_] | None = None
) -> float:
    """How far the first two tokens of many answers are from the chain's own distribution.

    A block of `depth` draft tokens gives the first token, and the second one when the first was accepted; else the
    second comes out of the next round, as in a running answer.
    """
    counts = np.zeros((NUM_TOKENS, NUM_TOKENS))
    for seed in range(draws):
        sampler = make(Sampling(seed=seed, **settings))
        tokens = draw_block(sampler, depth, allowed)
        if len(tokens) == 1:
            kept = [0, tokens[0]]
            proposal = sampler.propose(DRAFTER[kept[-1]], kept)
            tokens.append(sampler.choose(TARGET[kept[-1]], kept, allowed, proposal))
        counts[tokens[0], tokens[1]] += 1
    return z_score(counts, expected_joint(Sampling(**settings), allowed))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_answers_follow_the_target_at_every_depth(depth: int) -> None:
    assert joint_z(RejectionSampler, PLAIN, depth, NUM_DRAWS // 4) < Z_LIMIT


def test_answers_follow_the_target_with_the_whole_chain_and_a_constraint() -> None:
    assert joint_z(RejectionSampler, FULL, 2, NUM_DRAWS // 4, allowed=NO_FOURTH) < Z_LIMIT


class SharedNoise(RejectionSampler):
    """Tests the draft with the noise that it was drawn with."""

    def __init__(self, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._target_noise = self._draft_noise


class WholeInsteadOfResidual(RejectionSampler):
    """After a rejection, draws from p instead of (p - q)+."""

    def choose(
        self,
        logits: NDArray[np.float32],
        token_ids: Sequence[int],
        allowed: NDArray[np.bool_] | None = None,
        proposal: Proposal | None = None,
    ) -> int:
        token = super().choose(logits, token_ids, allowed, proposal)
        if proposal is None or token == proposal.token_id:
            return token
        return super().choose(logits, token_ids, allowed, None)


class OffByOneRow(RejectionSampler):
    """Judges a draft with the distribution it had one row later."""

    def propose(self, logits: NDArray[np.float32], token_ids: Sequence[int]) -> Proposal:
        proposal = super().propose(logits, token_ids)
        later = shortlist(DRAFTER[proposal.token_id], self.sampling)
        return Proposal(proposal.token_id, Candidates(later.token_ids, later.scores))


@pytest.mark.parametrize("mutant", [SharedNoise, WholeInsteadOfResidual, OffByOneRow])
def test_the_test_sees_a_biased_sampler(mutant: MakeSampler) -> None:
    assert joint_z(mutant, PLAIN, 2, NUM_DRAWS // 8) > Z_LIMIT


def test_a_draft_equal_to_the_target_is_always_accepted() -> None:
    for seed in range(300):
        sampler = RejectionSampler(Sampling(seed=seed, **FULL))
        proposal = sampler.propose(TARGET[2], [0, 2])
        assert sampler.choose(TARGET[2], [0, 2], None, proposal) == proposal.token_id


def test_a_point_mass_is_accepted_as_often_as_the_target_would_have_drawn_it() -> None:
    p = distribution([0], Sampling(**PLAIN), None)
    drafted = int(p.argmax())
    draws = 20_000
    accepted = sum(
        RejectionSampler(Sampling(seed=seed, **PLAIN)).choose(TARGET[0], [0], None, Proposal(drafted)) == drafted
        for seed in range(draws)
    )
    assert abs(accepted / draws - p[drafted]) < 4 * np.sqrt(p[drafted] * (1 - p[drafted]) / draws)


def test_an_impossible_draft_is_never_accepted() -> None:
    forbidden = 3
    for seed in range(200):
        sampler = RejectionSampler(Sampling(seed=seed, **PLAIN))
        assert sampler.choose(TARGET[0], [0], NO_FOURTH, Proposal(forbidden)) != forbidden


def test_streams_of_one_seed_differ() -> None:
    ids = np.arange(64)
    streams = [GumbelNoise(5, stream=stream).at(9, ids) for stream in range(4)]
    for index, left in enumerate(streams):
        for right in streams[index + 1 :]:
            assert abs(float(np.corrcoef(left, right)[0, 1])) < 0.5
