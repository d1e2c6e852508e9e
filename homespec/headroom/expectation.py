"""What a drafter is expected to gain before anything was measured: priors, replaced by measurements while serving."""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_ACCEPTANCE = 0.6
"""Chance that a draft token is right when the ones before it were: a middling pair of one family."""
DEVICE_TO_HOST = 8.0
"""How much faster a device reads its memory than a box does; only used where the drafter lies elsewhere."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The best length of a draft, and what it is worth."""

    speedup: float
    num_draft_tokens: int
    """D; 0 when no draft pays."""


def acceptance_length(num_draft_tokens: int, acceptance: float = PRIOR_ACCEPTANCE) -> float:
    """AL = 1 + a + a² + … + a^D: tokens per target pass, the bonus token included (Leviathan et al. 2023, eq. 1)."""
    return sum(acceptance**position for position in range(num_draft_tokens + 1))


def expected(rho: float, max_draft_tokens: int, acceptance: float = PRIOR_ACCEPTANCE) -> Expectation:
    """The D with the largest AL / (1 + rho·D); rho = cost of a draft token ÷ cost of a target pass.

    It assumes that verifying costs one target pass, which holds while reading the weights decides.
    """
    choices = range(max_draft_tokens + 1)
    best = max(choices, key=lambda d: acceptance_length(d, acceptance) / (1 + rho * d))
    return Expectation(acceptance_length(best, acceptance) / (1 + rho * best), best)


def rho(draft_bytes: int, target_bytes: int, *, draft_on_host: bool, target_on_device: bool) -> float:
    """Draft cost ÷ target cost where reading the weights decides about both."""
    slower = DEVICE_TO_HOST if draft_on_host and target_on_device else 1.0
    return slower * draft_bytes / max(target_bytes, 1)
