"""Prompt lookup: what followed the same few tokens the last time."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.sampling.sampler import Proposal
from homespec.status import ModelMemory

MAX_MATCH = 5
MIN_MATCH = 3


class _Index:
    """Where each n-gram of one sequence was last followed by something."""

    def __init__(self) -> None:
        self._next_position: dict[tuple[int, ...], int] = {}
        self._num_indexed = 0

    def extend(self, token_ids: list[int]) -> None:
        """Index the n-grams that have a continuation now: all but those that end the sequence."""
        for end in range(self._num_indexed, len(token_ids)):
            for size in range(MIN_MATCH, MAX_MATCH + 1):
                if end >= size:
                    self._next_position[tuple(token_ids[end - size : end])] = end
        self._num_indexed = len(token_ids)

    def match(self, token_ids: list[int]) -> int | None:
        """Position after the latest earlier occurrence of the longest tail that occurs."""
        for size in range(min(MAX_MATCH, len(token_ids)), MIN_MATCH - 1, -1):
            position = self._next_position.get(tuple(token_ids[-size:]))
            if position is not None:
                return position
        return None


class NgramDrafter:
    """Prompt lookup decoding (Saxena 2023): free, and right where the answer repeats the prompt or itself."""

    name = "ngram"
    memory = ModelMemory()

    def __init__(self) -> None:
        self._indices: dict[int, _Index] = {}

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        self._indices[slot_id] = _Index()

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        self._indices.setdefault(slot_id, _Index()).extend(token_ids)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        return [self._propose(request) for request in requests]

    def close(self, slot_id: int) -> None:
        self._indices.pop(slot_id, None)

    def shutdown(self) -> None:
        self._indices.clear()

    def _propose(self, request: DraftRequest) -> Draft:
        index = self._indices.setdefault(request.slot_id, _Index())
        index.extend(request.token_ids)
        position = index.match(request.token_ids)
        if position is None:
            return Draft([], "no match")
        tokens = _continue(request.token_ids, position, request.max_tokens)
        return Draft([Proposal(token) for token in tokens])


def _continue(token_ids: list[int], position: int, count: int) -> list[int]:
    """Copy `count` tokens from `position`; past the end the copy goes on with itself, as a repetition does."""
    draft = token_ids[position : position + count]
    period = len(token_ids) - position
    while len(draft) < count:
        draft.append(draft[len(draft) - period])
    return draft
