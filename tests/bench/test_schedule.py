from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.bench.prompts import Prompt
from homespec.bench.schedule import schedule, turning


def prompts(num_categories: int, num_each: int) -> list[Prompt]:
    return [Prompt(f"{c}-{i}", str(c), ("?",)) for c in range(num_categories) for i in range(num_each)]


def test_two_sides_take_turns_as_abba() -> None:
    assert ["".join(turning("AB", index)) for index in range(4)] == ["AB", "BA", "BA", "AB"]


@given(st.integers(1, 4), st.integers(1, 9), st.integers(1, 5), st.integers(0, 99))
def test_every_prompt_is_asked_once_on_every_side(
    num_categories: int, num_each: int, num_sides: int, seed: int
) -> None:
    asked = prompts(num_categories, num_each)
    planned = schedule(asked, range(num_sides), seed)
    assert sorted(prompt.question_id for prompt, _ in planned) == sorted(prompt.question_id for prompt in asked)
    assert all(sorted(order) == list(range(num_sides)) for _, order in planned)


@pytest.mark.parametrize("num_sides", [2, 3, 4])
def test_no_side_of_a_category_comes_first_more_often(num_sides: int) -> None:
    planned = schedule(prompts(3, 4 * num_sides), range(num_sides), seed=5)
    for category in "012":
        firsts = Counter(order[0] for prompt, order in planned if prompt.category == category)
        lasts = Counter(order[-1] for prompt, order in planned if prompt.category == category)
        assert set(firsts.values()) == set(lasts.values()) == {4}


@pytest.mark.parametrize("num_each", [1, 5, 13])
def test_what_is_left_over_of_the_rounds_of_categories_falls_on_all_sides(num_each: int) -> None:
    """Every category is as long as the others: all of them would begin one more prompt with the same side."""
    planned = schedule(prompts(15, num_each), "AB", seed=5)
    firsts = Counter(order[0] for _, order in planned)
    assert abs(firsts["A"] - firsts["B"]) <= 1


def test_the_order_depends_on_the_seed_alone_and_mixes_categories() -> None:
    asked = prompts(3, 8)
    assert schedule(asked, "AB", 1) == schedule(asked, "AB", 1) != schedule(asked, "AB", 2)
    first = [prompt.category for prompt, _ in schedule(asked, "AB", 1)][:8]
    assert len(set(first)) > 1
