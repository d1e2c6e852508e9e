from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.drafters.drafter import DraftRequest
from homespec.engine.drafters.ngram import MIN_MATCH, NgramDrafter
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal


def no_logits(_logits: Logits, _token_ids: object) -> Proposal:
    raise AssertionError("prompt lookup has no logits")


def propose(drafter: NgramDrafter, token_ids: list[int], count: int = 4, slot_id: int = 0) -> list[int]:
    [draft] = drafter.propose([DraftRequest(slot_id, token_ids, count, no_logits)])
    assert draft.token_ids or draft.reason
    return draft.token_ids


def test_it_copies_what_followed_the_last_time() -> None:
    assert propose(NgramDrafter(), [1, 2, 3, 7, 8, 9, 1, 2, 3]) == [7, 8, 9, 1]


def test_the_latest_occurrence_counts() -> None:
    assert propose(NgramDrafter(), [1, 2, 3, 7, 0, 1, 2, 3, 8, 0, 1, 2, 3], 1) == [8]


def test_a_longer_match_beats_a_later_one() -> None:
    assert propose(NgramDrafter(), [5, 1, 2, 3, 7, 0, 9, 1, 2, 3, 8, 0, 5, 1, 2, 3], 1) == [7]


def test_a_repetition_goes_on_with_itself() -> None:
    assert propose(NgramDrafter(), [1, 2, 1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]


@pytest.mark.parametrize("token_ids", [[1], [1, 2], [1, 2, 3], [1, 2, 3, 4, 5, 6]])
def test_without_a_match_there_is_a_reason(token_ids: list[int]) -> None:
    [draft] = NgramDrafter().propose([DraftRequest(0, token_ids, 4, no_logits)])
    assert (draft.token_ids, draft.reason) == ([], "no match")


def test_a_new_request_in_the_slot_starts_afresh() -> None:
    drafter = NgramDrafter()
    for _ in range(3):
        drafter.begin(0, None, 0)
        assert propose(drafter, [1, 2, 3, 9, 1, 2, 3], 1) == [9]
        drafter.begin(0, None, 0)
        assert propose(drafter, [4, 1, 2, 3], 1) == []


def test_slots_do_not_see_one_another() -> None:
    drafter = NgramDrafter()
    assert propose(drafter, [1, 2, 3, 9, 1, 2, 3], slot_id=0)
    assert propose(drafter, [4, 1, 2, 3], slot_id=1) == []


def slow_match(token_ids: list[int]) -> int | None:
    for size in range(5, MIN_MATCH - 1, -1):
        for end in range(len(token_ids) - 1, size - 1, -1):
            if len(token_ids) > size and token_ids[end - size : end] == token_ids[-size:]:
                return end
    return None


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 6))
def test_growing_token_by_token_gives_what_a_search_from_scratch_gives(token_ids: list[int], count: int) -> None:
    drafter = NgramDrafter()
    for length in range(1, len(token_ids) + 1):
        known = token_ids[:length]
        draft = propose(drafter, known, count)
        position = slow_match(known)
        if position is None:
            assert draft == []
        else:
            extended = list(known)
            for offset in range(count):
                extended.append(extended[position + offset])
            assert draft == extended[length:]
