"""Ranges come out as they went in, however they are taken."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from homespec.chat.spans import Spans


def covered(spans: list[tuple[int, int]]) -> list[int]:
    return [place for start, end in spans for place in range(start, end)]


@given(st.lists(st.booleans(), max_size=30), st.lists(st.integers(0, 40), max_size=8))
def test_every_character_comes_out_once(marked: list[bool], edges: list[int]) -> None:
    spans = Spans()
    for place, is_marked in enumerate(marked):
        spans.add(place, place + is_marked)
    taken: list[tuple[int, int]] = []
    start = 0
    for end in [*sorted(edges), 50]:
        part = spans.take(start, end)
        assert all(start <= first < last <= end for first, last in part)
        taken += part
        start = end
    assert covered(taken) == [place for place, is_marked in enumerate(marked) if is_marked]


@given(st.lists(st.booleans(), max_size=30))
def test_neighbours_are_one(marked: list[bool]) -> None:
    spans = Spans()
    for place, is_marked in enumerate(marked):
        spans.add(place, place + is_marked)
    taken = spans.take(0, 50)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(taken))


def test_what_is_passed_over_is_forgotten() -> None:
    spans = Spans()
    spans.add(0, 4)
    spans.add(6, 8)
    assert spans.take(5, 7) == [(6, 7)]
    assert spans.take(0, 10) == [(7, 8)]
