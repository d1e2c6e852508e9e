"""Drafters whose proposals a test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from homespec.engine.drafters.drafter import Draft, Drafter, DraftRequest
from homespec.engine.sampling.sampler import Proposal
from homespec.status import ModelMemory

Script = Callable[[DraftRequest], Sequence[int]]


class ScriptedDrafter:
    """Proposes what `script` returns, all of it. Stands in the place of the draft model."""

    name = "draft"
    memory = ModelMemory()

    def __init__(self, script: Script) -> None:
        self._script = script
        self.is_shut_down = False

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None: ...

    def prefill(self, slot_id: int, token_ids: list[int]) -> None: ...

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        return [Draft(self._proposals(request), "script ended") for request in requests]

    def _proposals(self, request: DraftRequest) -> list[Proposal]:
        return [Proposal(token_id) for token_id in self._script(request)]

    def close(self, slot_id: int) -> None: ...

    def shutdown(self) -> None:
        self.is_shut_down = True


class RecordingDrafter:
    """Passes everything on to another drafter and remembers the drafts, one list of token ids per request and round."""

    def __init__(self, inner: Drafter, *, stop_after: int | None = None) -> None:
        """stop_after: tokens behind which no further one is worth making."""
        self._inner = inner
        self._stop_after = stop_after
        self.name = inner.name
        self.memory = inner.memory
        self.drafts: list[list[int]] = []
        self.confidences: list[float | None] = []
        """Of all drafted tokens: what a drafter with logits says here shows every bit of them."""
        self.limits: list[int] = []
        """The most tokens that each draft was allowed."""

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        self._inner.begin(slot_id, source_id, num_shared)

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        self._inner.prefill(slot_id, token_ids)

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        if (most := self._stop_after) is not None:
            requests = [replace(each, should_continue=lambda position, _: position + 1 < most) for each in requests]
        drafts = self._inner.propose(requests)
        self.limits += [request.max_tokens for request in requests]
        self.drafts += [list(draft.token_ids) for draft in drafts]
        self.confidences += [proposal.confidence for draft in drafts for proposal in draft.proposals]
        return drafts

    def close(self, slot_id: int) -> None:
        self._inner.close(slot_id)

    def shutdown(self) -> None:
        self._inner.shutdown()


def continuation_of(token_ids: Sequence[int]) -> Script:
    """The tokens that come next in a known sequence: a drafter that is always right about it."""

    def script(request: DraftRequest) -> Sequence[int]:
        done = len(request.token_ids)
        return token_ids[done : done + request.max_tokens]

    return script
