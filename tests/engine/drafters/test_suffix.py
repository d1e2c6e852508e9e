from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.drafters.past import PastOutputs
from homespec.engine.drafters.suffix import LENGTH_FACTOR, MIN_MATCH, SuffixDrafter
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal

MIB = 1024 * 1024


def no_logits(_logits: Logits, _token_ids: object) -> Proposal:
    raise AssertionError("suffix lookup has no logits")


def propose(
    drafter: SuffixDrafter,
    token_ids: list[int],
    count: int = 4,
    slot_id: int = 0,
    *,
    partition: str = "",
    min_confidence: float = 0.0,
) -> Draft:
    request = DraftRequest(slot_id, token_ids, count, no_logits, partition, min_confidence)
    [draft] = drafter.propose([request])
    assert draft.token_ids or draft.reason
    return draft


def said(drafter: SuffixDrafter, token_ids: list[int], count: int = 4, slot_id: int = 0, **options: str) -> list[int]:
    return propose(drafter, token_ids, count, slot_id, **options).token_ids  # type: ignore[arg-type]


def test_it_copies_what_followed() -> None:
    assert said(SuffixDrafter(), [1, 2, 3, 7, 8, 9, 5, 1, 2, 3]) == [7, 8, 9, 5]


def test_the_most_frequent_continuation_beats_the_latest() -> None:
    assert said(SuffixDrafter(), [1, 2, 3, 7, 0, 1, 2, 3, 7, 4, 1, 2, 3, 8, 6, 1, 2, 3], 1) == [7]


def test_the_longest_match_beats_a_more_frequent_one() -> None:
    assert said(SuffixDrafter(), [5, 1, 2, 7, 9, 1, 2, 8, 4, 1, 2, 8, 3, 5, 1, 2], 1) == [7]


def test_a_repetition_goes_on_with_itself() -> None:
    assert said(SuffixDrafter(), [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4], 7) == [1, 2, 3, 4, 1, 2, 3]


@pytest.mark.parametrize("token_ids", [[1], [1, 2], [1, 1], [1, 2, 3, 4, 5, 6], [1, 2, 3, 9, 1]])
def test_without_a_match_there_is_a_reason(token_ids: list[int]) -> None:
    assert propose(SuffixDrafter(), token_ids) == Draft([], "no match")


@pytest.mark.parametrize("length", range(MIN_MATCH, 7))
def test_a_draft_is_no_longer_than_its_match_allows(length: int) -> None:
    text = list(range(100, 200))
    draft = said(SuffixDrafter(), [*text, *text[10 : 10 + length]], 16)
    assert draft == text[10 + length : 10 + length + len(draft)]
    assert 1 <= len(draft) <= min(16, LENGTH_FACTOR * length)


def test_confidence_is_a_share_that_grows_with_the_match() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    drafts = [propose(SuffixDrafter(), [*text, 0, *text[:length]], 1) for length in (2, 3, 5, 8)]
    confidences = [draft.proposals[0].confidence or 0.0 for draft in drafts]
    assert confidences == sorted(confidences)
    assert all(0 < confidence < 1 for confidence in confidences)
    torn = propose(SuffixDrafter(), [1, 2, 3, 7, 0, 1, 2, 3, 8, 9, 1, 2, 3, 7, 4, 1, 2, 3], 1).proposals[0].confidence
    assert torn is not None
    assert 0.5 < torn < 2 / 3


def test_it_says_nothing_when_it_is_less_sure_than_asked() -> None:
    text = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert propose(SuffixDrafter(), [*text, 1, 2], min_confidence=0.8) == Draft([], "not sure")
    assert propose(SuffixDrafter(), [*text, 1, 2, 3, 4, 5], min_confidence=0.8).token_ids == [6, 7, 8, 9]


def test_slots_do_not_see_one_another() -> None:
    drafter = SuffixDrafter()
    assert said(drafter, [1, 2, 3, 9, 1, 2, 3], slot_id=0)
    assert said(drafter, [4, 1, 2, 3], slot_id=1) == []


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=25), min_size=2, max_size=4))
def test_whatever_a_slot_held_before_the_draft_is_that_of_a_fresh_drafter(texts: list[list[int]]) -> None:
    """A new request, another continuation, tokens that a stop string took back: with `begin` and without."""
    drafter = SuffixDrafter()
    for index, text in enumerate(texts):
        if index % 2:
            drafter.begin(0, 0, 3)
        drafter.prefill(0, text[: len(text) // 2])
        for length in (len(text), max(1, len(text) - 3), len(text)):
            assert propose(drafter, text[:length]) == propose(SuffixDrafter(), text[:length])


def test_a_list_that_lost_its_end_is_noticed() -> None:
    drafter, text = SuffixDrafter(), [1, 2, 3, 7, 8, 1, 2, 3, 7]
    propose(drafter, text)
    text.pop()
    assert said(drafter, text, 1) == [7]
    text += [9, 9, 1, 2, 3]
    assert propose(drafter, text) == propose(SuffixDrafter(), list(text))


SAID = [11, 12, 13, 14, 15, 16]
"""As much as a past answer must have in common with the text."""


def test_past_answers_are_drafted_from_within_one_partition() -> None:
    past = PastOutputs(MIB)
    past.add("one", [*SAID, 17, 18])
    drafter = SuffixDrafter(past)
    assert said(drafter, [4, *SAID], partition="one") == [17, 18]
    assert said(drafter, [4, *SAID], slot_id=1, partition="other") == []
    past.add("one", [*SAID[1:], 17, 18, 19])
    assert said(drafter, [4, *SAID, 17, 18], partition="one") == [19]


def test_no_draft_runs_from_one_past_answer_into_the_next() -> None:
    past = PastOutputs(MIB)
    past.add("", [*SAID, 17])
    past.add("", [24, 25])
    assert said(SuffixDrafter(past), SAID) == [17]
    assert said(SuffixDrafter(past), [*SAID, 17]) == []


def test_a_few_tokens_in_common_with_a_past_answer_say_nothing() -> None:
    past = PastOutputs(MIB)
    past.add("", [*SAID, 17])
    assert said(SuffixDrafter(past), [4, *SAID[1:]]) == []
    assert said(SuffixDrafter(past), [*SAID[-2:], 40, *SAID[1:]], 1) == [40]


def test_the_longer_match_of_its_own_text_and_the_past_decides() -> None:
    past = PastOutputs(MIB)
    past.add("", [1, 2, 3, 4, 5, 6, 50])
    own = [5, 6, 40, 1, 2, 3, 4, 5, 6]
    assert said(SuffixDrafter(past), own, 1) == [50]
    assert said(SuffixDrafter(past), [1, 2, 3, 4, 5, 6, 40, 9, *own[3:]], 1) == [40]


def test_what_is_forgotten_in_the_middle_of_an_answer_is_not_drafted_from() -> None:
    past = PastOutputs(MIB)
    past.add("", [*SAID, 17, 18])
    drafter = SuffixDrafter(past)
    assert said(drafter, SAID) == [17, 18]
    for start in range(0, 40_000, 500):
        past.add("", list(range(1000 + start, 1500 + start)))
    assert said(drafter, SAID) == []
