"""The threads that contexts decode with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Crew:
    """How many threads the contexts of an engine may use at most. Anyone may set it; it counts from the next call."""

    size: int | None = None
    """None: as many as each of them wants."""

    @property
    def is_cut(self) -> bool:
        """What is measured now says nothing of a box without other work."""
        return self.size is not None

    def cut(self, n_threads: int) -> int:
        return n_threads if self.size is None else min(n_threads, self.size)
