"""Who answers what when: prompts in random order, the sides of each next to each other and in turning order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

from homespec.bench.prompts import Prompt, categories_of

T = TypeVar("T")


def schedule(prompts: Sequence[Prompt], sides: Sequence[T], seed: int) -> list[tuple[Prompt, tuple[T, ...]]]:
    """Every prompt once on every side. What drifts with time falls on all sides and categories alike.

    With two sides the orders within a category are AB, BA, BA, AB, and so on; each category begins one further, for all
    of them are as long as each other, and what is left over of the last round would fall on the same side in all.
    """
    shuffled = list(prompts)
    random.Random(seed).shuffle(shuffled)
    num_seen = Counter({category: index for index, category in enumerate(categories_of(prompts))})
    planned = []
    for prompt in shuffled:
        planned.append((prompt, turning(sides, num_seen[prompt.category])))
        num_seen[prompt.category] += 1
    return planned


def turning(sides: Sequence[T], index: int) -> tuple[T, ...]:
    """The order of the sides for the index-th prompt: rotated by every second one, reversed for odd ones."""
    start = index // 2 % len(sides)
    order = (*sides[start:], *sides[:start])
    return order[::-1] if index % 2 else order
