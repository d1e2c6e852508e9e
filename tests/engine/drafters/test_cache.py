"""The books of a drafter's cache against a model of llama.cpp's cells, over any order of calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from homespec.engine.drafters.cache import FollowingCache
from homespec.engine.drafters.window import NUM_SINKS

WINDOW = 32
NUM_SLOTS = 3


@dataclass
class Cell:
    token_id: int
    position: int
    seq_ids: set[int] = field(default_factory=set)


class Cells:
    """A unified cache: tokens go to the lowest free cells, copies share cells, a shift moves all that are in one."""

    def __init__(self, *, can_shift: bool) -> None:
        self.can_shift = can_shift
        self.cells: list[Cell | None] = []

    def of(self, seq_id: int) -> list[Cell]:
        return [cell for cell in self.cells if cell is not None and seq_id in cell.seq_ids]

    def decode(self, seq_id: int, token_ids: list[int]) -> None:
        start = len(self.of(seq_id))
        for offset, token_id in enumerate(token_ids):
            if None not in self.cells:
                self.cells.append(None)
            self.cells[self.cells.index(None)] = Cell(token_id, start + offset, {seq_id})

    def trim(self, seq_id: int, n_past: int) -> None:
        self._remove(seq_id, n_past, None)

    def clear(self, seq_id: int) -> None:
        self._remove(seq_id, 0, None)

    def can_trim(self, seq_id: int, n_past: int) -> bool:
        return True

    def copy(self, source: int, destination: int, n_past: int) -> None:
        assert not self.of(destination)
        for cell in self.of(source):
            if cell.position < n_past:
                cell.seq_ids.add(destination)

    def shift(self, seq_id: int, start: int, count: int) -> None:
        self._remove(seq_id, start, start + count)
        for cell in self.of(seq_id):
            if cell.position >= start:
                assert cell.seq_ids == {seq_id}, "a shared cell was moved"
                cell.position -= count

    def save(self, seq_id: int) -> list[int]:
        return [cell.token_id for cell in sorted(self.of(seq_id), key=lambda cell: cell.position)]

    def restore(self, seq_id: int, saved: list[int]) -> None:
        assert not self.of(seq_id)
        self.decode(seq_id, saved)

    def _remove(self, seq_id: int, start: int, end: int | None) -> None:
        for index, cell in enumerate(self.cells):
            if cell is not None and seq_id in cell.seq_ids and start <= cell.position < (end or 10**9):
                cell.seq_ids.discard(seq_id)
                if not cell.seq_ids:
                    self.cells[index] = None


class CacheMachine(RuleBasedStateMachine):
    """Sequences grow, are rolled back, shared, dropped."""

    @initialize(can_shift=st.booleans())
    def start(self, can_shift: bool) -> None:
        self.cells = Cells(can_shift=can_shift)
        self.cache = FollowingCache(cast(Any, self.cells), WINDOW)
        self.tokens: dict[int, list[int]] = {}
        self.next_token = 0

    def slot(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.tokens)))

    def new(self, count: int) -> list[int]:
        self.next_token += count
        return list(range(self.next_token - count, self.next_token))

    @rule(slot_id=st.integers(0, NUM_SLOTS - 1), length=st.integers(1, 60))
    def begin_afresh(self, slot_id: int, length: int) -> None:
        self.cache.begin(slot_id, None, 0)
        self.tokens[slot_id] = self.new(length)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), slot_id=st.integers(0, NUM_SLOTS - 1), share=st.floats(0, 1), length=st.integers(1, 20))
    def begin_from(self, data: st.DataObject, slot_id: int, share: float, length: int) -> None:
        source = self.slot(data)
        num_shared = int(len(self.tokens[source]) * share)
        tokens = self.tokens[source][:num_shared]
        self.cache.begin(slot_id, source, num_shared)
        self.tokens[slot_id] = tokens + self.new(length)

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), kept=st.integers(0, 6), more=st.integers(1, 5), limit=st.integers(1, 40))
    def draft(self, data: st.DataObject, kept: int, more: int, limit: int) -> None:
        """What is pending, at most `limit` of it, and a few drafted tokens of which some are kept."""
        slot_id = self.slot(data)
        drafted = [-1 - index for index in range(6)]
        pending = self.cache.rewind(slot_id, self.tokens[slot_id], len(drafted))
        assert pending
        self.decode(slot_id, pending[:limit])
        if len(pending) <= limit:
            self.sees_the_first_tokens_and_the_last_ones(slot_id)
            self.decode(slot_id, drafted)
            self.tokens[slot_id] += drafted[:kept]
        self.tokens[slot_id] += self.new(more)

    def sees_the_first_tokens_and_the_last_ones(self, slot_id: int) -> None:
        tokens, held = self.tokens[slot_id], self.cache[slot_id]
        assert held[:NUM_SINKS] == tokens[:NUM_SINKS]
        num_last = len(held) - NUM_SINKS
        assert num_last <= 0 or held[NUM_SINKS:] == tokens[-num_last:]
        assert len(held) == len(tokens) or len(held) >= WINDOW // 2 - 6

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        slot_id = self.slot(data)
        self.cache.close(slot_id)
        del self.tokens[slot_id]

    def decode(self, slot_id: int, token_ids: list[int]) -> None:
        self.cells.decode(slot_id, token_ids)
        self.cache[slot_id].extend(token_ids)

    @invariant()
    def the_books_agree_with_the_cells(self) -> None:
        for slot_id in range(NUM_SLOTS):
            held = sorted(self.cells.of(slot_id), key=lambda cell: cell.position)
            assert [cell.position for cell in held] == list(range(len(held)))
            assert [cell.token_id for cell in held] == self.cache[slot_id]
            assert len(held) <= WINDOW


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=40, stateful_step_count=25)


def alone(tokens: list[int]) -> tuple[Cells, FollowingCache]:
    cells = Cells(can_shift=False)
    cache = FollowingCache(cast(Any, cells), WINDOW)
    cells.decode(0, tokens)
    cache[0].extend(tokens)
    return cells, cache


@pytest.mark.parametrize("source", [None, 0])
def test_with_the_cache_to_itself_a_slot_lies_in_order_whatever_was_there(source: int | None) -> None:
    cells, cache = alone([1, 2, 3, 4])
    cells.decode(1, [7, 8, 9])
    cache[1].extend([7, 8, 9])
    cells.decode(0, [5, 6])
    cache[0].extend([5, 6])
    cache.begin(2, source, 5)
    cache.close(1)
    cache.close(0)
    tokens = [1, 2, 3, 4, 5, 10, 11]
    pending = cache.rewind(2, tokens)
    cells.decode(2, pending)
    cache[2].extend(pending)
    assert [cell.token_id for cell in cells.of(2)] == tokens
    assert cells.cells[: len(tokens)] == cells.of(2)
