"""One request: while it is in flight, and what its answer says of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from homespec.status.drafting import DraftState


class RequestPhase(StrEnum):
    """Where a request is inside the engine."""

    WAITING = "waiting"
    PREFILL = "prefill"
    DECODE = "decode"


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """One request in flight: numbers only."""

    id: str
    phase: RequestPhase
    slot: int | None
    num_prompt_tokens: int
    num_prefilled_tokens: int
    """Prompt tokens in the KV cache, reused ones included."""
    num_cached_tokens: int
    """Prompt tokens that were reused from an earlier request."""
    num_output_tokens: int
    age_s: float
    tokens_per_second: float | None
    drafter: str | None
    num_draft_tokens: int
    """D of the last round."""
    acceptance_rate: float | None
    acceptance_length: float | None
    decision: str | None = None
    """What the controller decided in the last round, with its numbers; None when it was not asked."""

    @classmethod
    def waiting(cls, request_id: str, *, age_s: float) -> RequestStatus:
        """Of a request that the engine has not seen: its prompt has not been counted."""
        return cls(
            id=request_id,
            phase=RequestPhase.WAITING,
            slot=None,
            num_prompt_tokens=0,
            num_prefilled_tokens=0,
            num_cached_tokens=0,
            num_output_tokens=0,
            age_s=age_s,
            tokens_per_second=None,
            drafter=None,
            num_draft_tokens=0,
            acceptance_rate=None,
            acceptance_length=None,
        )


@dataclass(frozen=True, slots=True)
class Timings:
    """llama-server's per-request timings, so its tools read ours."""

    prompt_n: int
    prompt_ms: float
    prompt_per_second: float | None
    predicted_n: int
    predicted_ms: float
    predicted_per_second: float | None
    cache_n: int
    draft_n: int
    draft_n_accepted: int
    draft_ms: float | None = None
    """This answer's share of the time that drafters took; None: the server does not say."""
    verify_ms: float | None = None
    """Its share of the target's passes, by rows, with what it took to take rows back. The prompt's are not in it."""


@dataclass(frozen=True, slots=True)
class SpeculationReport:
    """What drafting did for one request."""

    state: DraftState
    reason: str
    drafters: dict[str, int]
    """Rounds drafted, per drafter."""
    rounds: int
    """Target passes that produced this answer."""
    drafted: int
    accepted: int
    acceptance_length: float | None
    """Tokens per target pass over all rounds of the request; None before the first."""
    per_position: list[float]
    exactness: str
