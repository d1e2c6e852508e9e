"""Comparing an answer with the plain one, and telling a near-tie from a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from homespec.engine.drafters.drafter import DraftRequest
from homespec.engine.llama.batch import Batch
from tests.kits.drafters import ScriptedDrafter
from tests.kits.engines import SCRIPTED, Answer, Driver, ask, running


def plain_and_drafted(
    model: Path,
    prompt: str | Sequence[int],
    *,
    limit: int = 8,
    wrong_every: int = 0,
    then: Sequence[int] = (),
    **request: Any,
) -> tuple[Answer, Answer]:
    """One request without drafts, and once more with drafts that say what the plain answer said, and then `then`.

    wrong_every: every n-th token of the sequence is drafted wrongly; 0 for never.
    """
    with running(model, draft=SCRIPTED, n_ctx=256) as driver:
        [plain] = driver.run(ask(prompt, **request))
        truth = [*plain.sequence.token_ids, *then]

        def script(draft: DraftRequest) -> list[int]:
            start = len(draft.token_ids)
            return [
                (truth[at] + 1) % 256 if wrong_every and at % wrong_every == 0 else truth[at]
                for at in range(start, min(start + draft.max_tokens, len(truth)))
            ]

        driver.use_drafter(ScriptedDrafter(script))
        [drafted] = driver.run(ask(prompt, mode="draft", max_draft_tokens=limit, **request))
    return plain, drafted


def same_answer(left: Answer, right: Answer) -> bool:
    """Tokens, text, usage and reason agree."""
    return (left.token_ids, left.text, left.finished.num_output_tokens, left.finished.finish_reason) == (
        right.token_ids,
        right.text,
        right.finished.num_output_tokens,
        right.finished.finish_reason,
    )


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


def divergence(prompt: str, expected: list[int], got: list[int]) -> Divergence | None:
    """Where the tokens part; None when they are the same."""
    return None if got == expected else Divergence(prompt, _common_length(expected, got), expected, got)


def divergences(prompts: Sequence[str], expected: Sequence[Answer], got: Sequence[Answer]) -> list[Divergence]:
    """One entry per pair of answers whose tokens differ."""
    found = (
        divergence(prompt, left.token_ids, right.token_ids)
        for prompt, left, right in zip(prompts, expected, got, strict=True)
    )
    return [each for each in found if each is not None]


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
