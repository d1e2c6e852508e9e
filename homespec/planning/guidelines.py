"""The rules of thumb for one model: where to look for a good D before anything was measured. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from homespec.footprint import ModelFacts, Speeds

TILE = 128
"""Rows of queries that a tile of a GPU's attention kernel takes."""
_NUM_STEPS = 3


@dataclass(frozen=True, slots=True)
class Guidelines:
    """Priors about D; measurements replace them while serving."""

    heads_per_kv_head: int
    """G: query heads that share one KV head."""
    tile_steps: tuple[int, ...]
    """D at which G·(1 + D) fills one, two, three tiles of attention; beyond one, D pays in steps only."""
    plain_tokens_per_s: float | None
    """Ceiling of plain decoding where reading the weights decides; None on a device, which was not measured."""
    knee_rows: float | None
    """Rows per pass up to which verifying costs about as much as one row: B·(1 + D) should stay below."""

    def lines(self) -> Iterator[str]:
        """Each rule with this model's numbers."""
        if self.knee_rows is None:
            yield "1. raise D until verifying turns compute-bound: not measured on a device; serving measures it"
        else:
            yield (
                f"1. verifying turns compute-bound at about {self.knee_rows:.1f} rows per pass (sequences x (1 + D)); "
                f"the weights can be read {self.plain_tokens_per_s:.0f} times a second, the ceiling of plain decoding"
            )
        steps = ", ".join(str(step) for step in self.tile_steps)
        yield (
            f"2. where attention dominates (long context, GPU): D = 128/G - 1 = {self.tile_steps[0]} with "
            f"G = {self.heads_per_kv_head} query heads per KV head"
        )
        yield f"3. beyond that, prefer D at which G x (1 + D) fills tiles of 128: {steps}"
        yield "4. speedup = AL / (1 + rho x D): a longer draft must add more to AL than rho, its cost in target passes"
        yield "5. the highest AL is not the highest speedup: drafting costs too"


def guidelines(facts: ModelFacts, speeds: Speeds | None) -> Guidelines:
    """`speeds`: None when the target runs on a device.

    Knee: reading all weights takes as long as computing n rows, 2 operations per weight and row (roofline).
    """
    group = max(1, facts.n_head // max(facts.n_head_kv, 1))
    steps = tuple(max(1, tiles * TILE // group - 1) for tiles in range(1, _NUM_STEPS + 1))
    if speeds is None:
        return Guidelines(group, steps, None, None)
    reading_s = facts.weights_bytes / speeds.read_bytes_per_s
    row_s = 2 * facts.num_params / speeds.flops
    return Guidelines(group, steps, 1 / reading_s, reading_s / row_s)
