"""Stretches of a text, as half-open ranges of its characters. Pure."""

from __future__ import annotations

from collections import deque

Span = tuple[int, int]


class Spans:
    """Added from left to right, and taken from left to right; neighbours are one."""

    def __init__(self) -> None:
        self._spans: deque[Span] = deque()

    def add(self, start: int, end: int) -> None:
        """`start` must not lie in front of the end of what was added before."""
        if start >= end:
            return
        if self._spans and self._spans[-1][1] == start:
            start = self._spans.pop()[0]
        self._spans.append((start, end))

    def take(self, start: int, end: int) -> list[Span]:
        """The parts between `start` and `end`; whatever lies in front of `end` is forgotten."""
        taken = []
        while self._spans and self._spans[0][0] < end:
            first, last = self._spans.popleft()
            if max(first, start) < min(last, end):
                taken.append((max(first, start), min(last, end)))
            if last > end:
                self._spans.appendleft((end, last))
                break
        return taken
