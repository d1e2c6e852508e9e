from __future__ import annotations

from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.sampling.accept import accept

tokens = st.integers(0, 3)


@given(st.lists(tokens, max_size=8), st.lists(tokens, min_size=9, max_size=9))
def test_the_result_is_the_common_prefix_and_one_more_token_of_the_target(draft: list[int], target: list[int]) -> None:
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(draft, target, strict=False)))
    result = list(accept(draft, lambda row: target[row]))
    assert [token for token, _ in result] == target[: common + 1]
    assert [from_draft for _, from_draft in result] == [True] * common + [False]


@given(st.lists(tokens, max_size=8), st.lists(tokens, min_size=9, max_size=9), st.integers(1, 9))
def test_no_row_is_looked_at_before_the_consumer_wants_it(draft: list[int], target: list[int], wanted: int) -> None:
    looked_at = []

    def choose(row: int) -> int:
        looked_at.append(row)
        return target[row]

    taken = [pair for pair, _ in zip(accept(draft, choose), range(wanted), strict=False)]
    assert looked_at == list(range(len(looked_at)))
    assert len(looked_at) <= len(taken) + 1


def test_an_empty_draft_is_a_plain_step() -> None:
    assert list(accept([], lambda row: 7)) == [(7, False)]


def test_rows_after_the_first_difference_are_never_judged() -> None:
    rows = []

    def choose(row: int) -> int:
        rows.append(row)
        return [1, 9, 3][row]

    assert list(accept([1, 2, 3], choose)) == [(1, True), (9, False)]
    assert rows == [0, 1]
