"""Verification of a draft against the target. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence


def accept(draft_tokens: Sequence[int], choose: Callable[[int], int]) -> Iterator[tuple[int, bool]]:
    """Yield (token, from_draft) for the accepted prefix, then for the bonus token.

    `choose(i)` is the target's own token at row i of the verify batch; row 0 judges the first draft token. It is
    called only when the consumer pulls, so it sees the tokens that the consumer has kept, and a consumer that stops
    half-way (end of text, stop string, length) leaves no later row looked at. Every token is the target's; the draft
    only decides how many rows count. Yields 1 to 1 + len(draft_tokens) pairs.
    """
    for row, drafted in enumerate(draft_tokens):
        token = choose(row)
        yield token, token == drafted
        if token != drafted:
            return
    yield choose(len(draft_tokens)), False
