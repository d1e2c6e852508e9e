"""Where a target has no draft file: the copy of it that would be worth making, in numbers. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

import msgspec

from homespec.footprint import Footprint, ModelFacts
from homespec.frames import EngineSettings
from homespec.headroom.budget import Budget
from homespec.headroom.choice import TargetPlan
from homespec.headroom.computed import computed
from homespec.headroom.expectation import expected, rho
from homespec.units import format_bytes

WORTH = 1.1
"""Expected speedup below which nobody is asked to spend disk and memory."""
_K_BLOCK = 256
"""Weights per block of a K-quant: rows of another length get larger types."""
_BITS = {"Q4_0": 4.67, "Q3_K_M": 4.0, "Q2_K": 3.16}
"""Bits per weight of a whole model by type, the best first: of Llama-3.1-8B, tools/quantize/README.md of llama.cpp
(Q4_0 as Q4_K_S, whose blocks have as many)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A copy of the target with fewer bits."""

    quant: str
    command: str
    """Makes it."""
    weights_bytes: int
    """About."""
    share: float
    """Of the target's weights: what a draft token costs in target passes where reading weights decides."""
    required_bytes: int
    """With its context; it fits."""
    expected_speedup: float
    num_draft_tokens: int
    """D that the expectation is for."""

    @property
    def text(self) -> str:
        return (
            f"no draft file; a copy of the model could draft: {self.command} makes one of about "
            f"{format_bytes(self.weights_bytes)}, {self.share:.0%} of the model, which fits "
            f"({format_bytes(self.required_bytes)} with its context). Expected {self.expected_speedup:.2f}x at "
            f"D = {self.num_draft_tokens} where reading weights decides; it is measured when made, and taken from the "
            f"next start on"
        )


def propose(
    settings: EngineSettings, facts: ModelFacts, target: TargetPlan, budget: Budget, device: str | None
) -> Proposal | None:
    """The copy of the best type that is expected to pay and fits beside the target; None when there is none.

    settings: of the target as planned. device: where layers go; None on a box without one.
    """
    for quant, bits in _BITS.items():
        if quant.startswith("Q4") or facts.n_embd % _K_BLOCK == 0:
            found = _weigh(quant, int(facts.num_params * bits / 8), settings, facts, target, budget, device)
            if found is not None:
                return found
    return None


def _weigh(
    quant: str,
    weights_bytes: int,
    settings: EngineSettings,
    facts: ModelFacts,
    target: TargetPlan,
    budget: Budget,
    device: str | None,
) -> Proposal | None:
    share = rho(weights_bytes, facts.weights_bytes, draft_on_host=False, target_on_device=False)
    gain = expected(share, settings.max_draft_tokens)
    footprint = _footprint(weights_bytes, settings, facts, target, device)
    if gain.speedup < WORTH or budget.shortage(target.footprint, footprint) is not None:
        return None
    return Proposal(
        quant=quant,
        command=f"homespec derive {shlex.quote(settings.model_path)} --quant {quant}",
        weights_bytes=weights_bytes,
        share=share,
        required_bytes=footprint.total_bytes,
        expected_speedup=gain.speedup,
        num_draft_tokens=gain.num_draft_tokens,
    )


def _footprint(
    weights_bytes: int, settings: EngineSettings, facts: ModelFacts, target: TargetPlan, device: str | None
) -> Footprint:
    """In full where the target is, with the window that a draft model gets."""
    n_ctx = target.footprint.n_ctx
    own = msgspec.structs.replace(
        settings,
        n_ctx=min(n_ctx, settings.slots * (settings.draft_window or n_ctx)),
        kv_type=target.footprint.kv_type,
    )
    return computed(msgspec.structs.replace(facts, file_bytes=weights_bytes), own, "not made yet", device=device)
