"""Past answers that `suffix` may draft from: bounded in bytes, apart for each API key, on disk only if asked to."""

from __future__ import annotations

from collections.abc import Sequence

from homespec.engine.drafters.journal import Journal
from homespec.engine.drafters.suffix_automaton import MAX_TOKEN_BYTES, OWN_BYTES, SuffixAutomaton

_END = -1
"""Between two answers; no token has a negative id."""


class PastOutputs:
    """Two generations: answers go into the young one; when that is half the limit, it becomes the old one.

    So the oldest half is forgotten at once, and growing stays O(1) amortised per token.
    """

    def __init__(self, limit_bytes: int, journal: Journal | None = None) -> None:
        self._half_bytes = limit_bytes // 2
        self._young: dict[str, SuffixAutomaton] = {}
        self._old: dict[str, SuffixAutomaton] = {}
        self._journal: Journal | None = None
        for partition, token_ids in journal.read() if journal is not None else ():
            self.add(partition, token_ids)
        self._journal = journal

    @property
    def size_bytes(self) -> int:
        """Never over the limit."""
        return _size_bytes(self._young) + _size_bytes(self._old)

    def add(self, partition: str, token_ids: Sequence[int], *, lasting: bool = True) -> None:
        """Remember an answer, or as much of its end as there could ever be room for; in memory only if not lasting."""
        kept = list(token_ids[-max(0, (self._half_bytes - OWN_BYTES) // MAX_TOKEN_BYTES - 1) :])
        need = OWN_BYTES + (len(kept) + 1) * MAX_TOKEN_BYTES
        if not kept or need > self._half_bytes:
            return
        if _size_bytes(self._young) + need > self._half_bytes:
            self._old, self._young = self._young, {}
            if self._journal is not None:
                self._journal.rotate()
        self._young.setdefault(partition, SuffixAutomaton()).extend([*kept, _END])
        if self._journal is not None and lasting:
            self._journal.append(partition, kept)

    def automata(self, partition: str) -> list[SuffixAutomaton]:
        """What this partition may draft from, the newer answers first."""
        return [generation[partition] for generation in (self._young, self._old) if partition in generation]


def _size_bytes(generation: dict[str, SuffixAutomaton]) -> int:
    return sum(automaton.size_bytes for automaton in generation.values())
