from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.stats import DraftStats

rounds = st.lists(
    st.integers(0, 8).flatmap(lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted))), max_size=30
)


def tally(counts: list[tuple[int, int]]) -> DraftStats:
    stats = DraftStats()
    for drafted, accepted in counts:
        stats.add_round(drafted, accepted)
    return stats


@given(rounds)
def test_counts_are_sums_over_the_rounds_that_drafted(counts: list[tuple[int, int]]) -> None:
    stats = tally(counts)
    drafting = [(drafted, accepted) for drafted, accepted in counts if drafted]
    assert stats.num_drafts == len(drafting)
    assert stats.num_draft_tokens == sum(drafted for drafted, _ in drafting)
    assert stats.num_accepted_tokens == sum(accepted for _, accepted in drafting)
    assert stats.num_accepted_per_position == [
        sum(accepted > position for _, accepted in drafting)
        for position in range(max((accepted for _, accepted in drafting), default=0))
    ]


@given(rounds)
def test_rates_follow_from_the_counts_and_are_unknown_without_drafts(counts: list[tuple[int, int]]) -> None:
    stats = tally(counts)
    if not stats.num_drafts:
        assert stats.acceptance_rate is None
        assert stats.acceptance_length is None
        assert stats.draft_length is None
        assert stats.acceptance_per_position == []
        return
    assert stats.acceptance_rate == stats.num_accepted_tokens / stats.num_draft_tokens
    assert stats.acceptance_length == 1 + stats.num_accepted_tokens / stats.num_drafts
    assert stats.draft_length == stats.num_draft_tokens / stats.num_drafts
    assert all(0 < share <= 1 for share in stats.acceptance_per_position)
    assert stats.acceptance_per_position == sorted(stats.acceptance_per_position, reverse=True)
    assert sum(stats.acceptance_per_position) + 1 == pytest.approx(stats.acceptance_length)


@given(rounds, rounds)
def test_tallies_add_up_and_can_be_taken_away(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    total = tally(left)
    total.add(tally(right))
    assert total == tally(left + right)
    total.add(tally(right), sign=-1)
    rest = tally(left)
    assert total.num_accepted_per_position[: len(rest.num_accepted_per_position)] == rest.num_accepted_per_position
    assert not any(total.num_accepted_per_position[len(rest.num_accepted_per_position) :])
    assert (total.num_drafts, total.num_draft_tokens, total.num_accepted_tokens) == (
        rest.num_drafts,
        rest.num_draft_tokens,
        rest.num_accepted_tokens,
    )


def test_a_copy_goes_its_own_way() -> None:
    stats = tally([(4, 2)])
    copy = stats.copy()
    stats.add_round(4, 4)
    assert copy == tally([(4, 2)])
