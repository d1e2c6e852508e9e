"""What was measured: one prompt on one side, turn by turn. Times are the client's, in seconds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

from homespec.stats import DraftStats

MIN_TIMED_TOKENS = 8
"""Answers of fewer tokens end before their speed can be told."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. What the server did not say is None."""

    text: str
    num_tokens: int
    """Counted with the daemon's tokenizer, on all sides alike."""
    time_to_first_token_s: float | None
    """None: the answer was empty."""
    decode_s: float
    """From the first text to the last."""
    finish_reason: str | None
    num_first_tokens: int = 1
    """In the first piece of text that came, which servers may hold back until it is several tokens."""
    num_generated: int | None = None
    """The server's own count."""
    num_computed_prompt: int | None = None
    """Tokens of the prompt that were not in its cache."""
    num_cached_prompt: int | None = None
    asked_again: bool = False
    """The first try broke off: what it left in the cache is no measure of a first token."""
    rounds: int | None = None
    """Target passes after the prompt."""
    stats: DraftStats = field(default_factory=DraftStats)
    drafters: dict[str, int] = field(default_factory=dict)
    """Rounds drafted, per drafter."""
    reason: str = ""
    """Why drafting is in the state it is in."""
    draft_ms: float | None = None
    verify_ms: float | None = None

    @property
    def num_timed_tokens(self) -> int:
        """The first ones come with the prompt's pass: the rate counts those after the clock started."""
        return max(self.num_tokens - max(self.num_first_tokens, 1), 0)


@dataclass(frozen=True, slots=True)
class Trial:
    """One prompt on one side."""

    question_id: str
    category: str
    side: str
    turns: tuple[Turn, ...]
    engine_rss_bytes: int | None = None
    """Resident memory of the engine just after it."""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(turn.text for turn in self.turns)

    @property
    def num_tokens(self) -> int:
        return sum(turn.num_tokens for turn in self.turns)

    @property
    def time_to_first_token_s(self) -> float | None:
        """Of the first turn: later ones find most of their prompt in the cache."""
        return None if self.turns[0].asked_again else self.turns[0].time_to_first_token_s

    @property
    def num_computed_prompt(self) -> int | None:
        """What the first token had to wait for."""
        return self.turns[0].num_computed_prompt

    @property
    def tokens_per_second(self) -> float | None:
        """None for an answer that is too short to be timed."""
        num_tokens = sum(turn.num_timed_tokens for turn in self.turns)
        seconds = sum(turn.decode_s for turn in self.turns)
        return num_tokens / seconds if num_tokens >= MIN_TIMED_TOKENS and seconds > 0 else None

    @property
    def rounds(self) -> int | None:
        rounds = [turn.rounds for turn in self.turns if turn.rounds is not None]
        return sum(rounds) if rounds else None

    @property
    def stats(self) -> DraftStats:
        total = DraftStats()
        for turn in self.turns:
            total.add(turn.stats)
        return total

    @property
    def drafters(self) -> Counter[str]:
        return sum((Counter(turn.drafters) for turn in self.turns), Counter())

    @property
    def draft_ms(self) -> float | None:
        return _sum([turn.draft_ms for turn in self.turns])

    @property
    def verify_ms(self) -> float | None:
        return _sum([turn.verify_ms for turn in self.turns])


class FailureKind(StrEnum):
    REFUSED = "refused"
    """The server said that it does not answer this prompt."""
    FAILED = "failed"
    """Its answer broke off twice."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A prompt that a side did not answer: it is in none of this side's comparisons."""

    question_id: str
    side: str
    kind: FailureKind
    message: str


def _sum(values: list[float | None]) -> float | None:
    """None when one of them is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
