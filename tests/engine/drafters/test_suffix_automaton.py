"""The automaton against a search through the text, token by token."""

from __future__ import annotations

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.drafters.suffix_automaton import MAX_COUNTED, MAX_TOKEN_BYTES, MAX_WAYS, ROOT, SuffixAutomaton

texts = st.lists(st.integers(0, 3), min_size=1, max_size=40)


def occurrences(text: list[int], part: list[int]) -> list[int]:
    """Ends of all occurrences."""
    return [end for end in range(len(part), len(text) + 1) if text[end - len(part) : end] == part]


def longest_repeated_tail(text: list[int]) -> int:
    return max(length for length in range(len(text)) if length == 0 or len(occurrences(text, text[-length:])) > 1)


@given(texts)
def test_after_every_token_the_longest_repeated_tail_is_known(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for length in range(1, len(text) + 1):
        automaton.extend(text[length - 1 : length])
        assert automaton.repeated_tail.length == longest_repeated_tail(text[:length])
        assert automaton.num_tokens == length


@given(st.lists(st.integers(0, 3), min_size=1, max_size=MAX_COUNTED))
def test_a_step_is_the_most_frequent_continuation_and_of_equals_the_latest(text: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    place = automaton.repeated_tail
    step = automaton.step(place)
    if place.length == 0:
        assert step is None
        return
    assert step is not None
    following = [text[end] for end in occurrences(text, text[-place.length :]) if end < len(text)]
    counts = {token: following.count(token) for token in following}
    best = max(counts.values())
    assert step.token_id in [token for token, count in counts.items() if count == best]
    assert step.token_id == next(token for token in reversed(following) if counts[token] == best)
    assert (step.times, step.total) == (best, len(following))
    assert step.place.length == place.length + 1


@given(texts, texts)
def test_advancing_through_another_text_keeps_the_longest_tail_that_occurs(text: list[int], other: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    place = ROOT
    for end in range(1, len(other) + 1):
        place = automaton.advance(place, other[end - 1])
        tails = [other[start:end] for start in range(end)]
        assert place.length == max((len(tail) for tail in tails if occurrences(text, tail)), default=0)


@given(texts, texts, texts)
def test_a_place_stays_good_while_the_text_grows(text: list[int], other: list[int], more: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    place = ROOT
    for token in other:
        place = automaton.advance(place, token)
    automaton.extend(more)
    for token in other:
        place = automaton.advance(place, token)
    both = text + more
    tails = [(other + other)[-length:] for length in range(1, 2 * len(other) + 1)]
    # Found later, a match may have started before the text knew it: then it is shorter, never wrong.
    assert place.length <= max((len(tail) for tail in tails if occurrences(both, tail)), default=0)
    assert not place.length or occurrences(both, (other + other)[-place.length :])
    if (step := automaton.step(place)) is not None:
        assert step.times <= step.total


def test_the_end_of_the_text_goes_on_with_what_came_before() -> None:
    automaton = SuffixAutomaton([1, 2, 3, 1, 2, 3])
    place, said = automaton.repeated_tail, []
    for _ in range(7):
        step = automaton.step(place)
        assert step is not None
        place = step.place
        said.append(step.token_id)
    assert said == [1, 2, 3, 1, 2, 3, 1]


def test_a_place_with_too_many_ways_on_is_no_guide() -> None:
    text = [token for way in range(MAX_WAYS + 1) for token in (0, way + 1)]
    assert SuffixAutomaton([*text[: 2 * MAX_WAYS], 0]).step(SuffixAutomaton([0]).repeated_tail) is None
    narrow, wide = SuffixAutomaton([*text[:-2], 0]), SuffixAutomaton([*text, 0])
    assert narrow.step(narrow.repeated_tail) is not None
    assert wide.step(wide.repeated_tail) is None


def test_its_own_estimate_of_its_memory_is_an_upper_bound() -> None:
    rng = np.random.default_rng(1)
    kinds = {
        "one token": [1] * 4000,
        "a period": list(range(1000, 1007)) * 600,
        "two tokens": rng.integers(1000, 1002, 4000).tolist(),
        "words": (rng.zipf(1.3, 4000) % 40_000).tolist(),
        "all different": list(range(1000, 5000)),
    }
    for name, text in kinds.items():
        tracemalloc.start()
        automaton = SuffixAutomaton(text)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held <= automaton.size_bytes <= len(text) * MAX_TOKEN_BYTES, name


def test_many_small_ones_are_not_taken_for_nothing() -> None:
    tracemalloc.start()
    automata = {f"key/{index:032}": SuffixAutomaton([index, 5, -1]) for index in range(1000)}
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held <= sum(automaton.size_bytes for automaton in automata.values())
