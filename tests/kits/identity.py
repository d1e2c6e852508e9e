"""Comparing an answer with the plain one, and telling a near-tie from a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from homespec.engine.llama.batch import Batch
from tests.kits.engines import Answer, Driver


@dataclass(frozen=True)
class Divergence:
    """Where two answers to one request part."""

    prompt: str
    position: int
    """Output tokens that they have in common."""
    expected: list[int]
    got: list[int]

    def __str__(self) -> str:
        return (
            f"{self.prompt!r}: token {self.position} is {self.got[self.position : self.position + 3]}, "
            f"not {self.expected[self.position : self.position + 3]}"
        )


def divergences(prompts: Sequence[str], expected: Sequence[Answer], got: Sequence[Answer]) -> list[Divergence]:
    """One entry per pair of answers whose tokens differ."""
    return [
        Divergence(prompt, _common_length(left.token_ids, right.token_ids), left.token_ids, right.token_ids)
        for prompt, left, right in zip(prompts, expected, got, strict=True)
        if left.token_ids != right.token_ids
    ]


def margin(driver: Driver, prompt_ids: Sequence[int], divergence: Divergence) -> float:
    """How far the two best logits lie apart where the answers part: small means a near-tie, large a fault."""
    token_ids = [*prompt_ids, *divergence.expected[: divergence.position]]
    driver.forget_prefixes()
    batch = Batch(driver.context.params.n_batch)
    for start in range(0, len(token_ids), batch.capacity):
        chunk = token_ids[start : start + batch.capacity]
        batch.clear()
        batch.add(chunk, start, 0, num_outputs=1)
        driver.context.decode(batch)
    second, best = np.partition(driver.context.logits()[0], -2)[-2:]
    driver.context.clear(0)
    return float(best - second)


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
