"""A bounded view of a sequence: its first tokens and its last ones. Pure.

A drafter needs little context, and the first tokens take up attention that has nowhere else to go: with them kept and
the positions closed up, drafts stay good however long the text is (StreamingLLM, Xiao et al., arXiv 2309.17453, §3).
"""

from __future__ import annotations

from dataclasses import dataclass

NUM_SINKS = 4
"""First tokens that are always kept (StreamingLLM's number)."""


@dataclass(frozen=True, slots=True)
class Window:
    """What a drafter sees of a sequence: all but `num_dropped` tokens behind the first `NUM_SINKS`."""

    num_dropped: int = 0

    def of(self, token_ids: list[int]) -> list[int]:
        """The tokens it sees; `token_ids` itself when that is all of them."""
        return token_ids[:NUM_SINKS] + token_ids[NUM_SINKS + self.num_dropped :] if self.num_dropped else token_ids

    @property
    def end(self) -> int:
        """Where in the sequence the gap ends; 0 without one."""
        return NUM_SINKS + self.num_dropped if self.num_dropped else 0

    def slid(self, num_tokens: int, size: int, block: int) -> Window:
        """The window over a sequence of `num_tokens` of which it may see `size`.

        When it moves, it leaves room for `block` tokens more, so that it need not move again soon.
        """
        excess = num_tokens - self.num_dropped - size
        return self if excess <= 0 else Window(self.num_dropped + excess + block)


WHOLE = Window()
"""Nothing dropped."""
