"""Heads that predict one token from the last token and a hidden state, and feed on their own state after that.

A row pairs the token at position p with the state of the token before it, p - 1. As long as states come from the target
a row is true and is kept; while the head drafts they are its own, and those rows are taken back. The rows that it is
behind with and the first row of a draft are one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.engine.drafters.head import HeadContext, HeadDrafter
from homespec.engine.llama.hidden_batch import HiddenBatch
from homespec.engine.llama.taps import Hidden
from homespec.engine.llama.vocab import Vocab
from homespec.engine.sampling.sampler import Proposal


@dataclass(slots=True)
class _Run:
    """A draft while it grows."""

    request: DraftRequest
    pending: list[int]
    """Tokens of the rows to decode before the next proposal."""
    hidden: Hidden
    """The state in front of each pending token."""
    position: int
    """Of the first pending token."""
    tokens: list[int]
    draft: list[Proposal] = field(default_factory=list)


class PairDrafter(HeadDrafter):
    """See Drafter. `eagle3` and `mtp` differ in the states they read and in the position of a row."""

    def __init__(self, name: str, head: HeadContext, target: Vocab, *, has_all_outputs: bool) -> None:
        """has_all_outputs: the head's graph ignores which rows want logits, so either all do or none."""
        super().__init__(name, head, target)
        self._has_all_outputs = has_all_outputs
        capacity = head.context.params.n_batch
        self._batch = HiddenBatch(capacity, head.context.model.n_embd, has_tokens=True)

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        self._catch_up(slot_id, token_ids, frozenset({slot_id}))

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        asking = frozenset(request.slot_id for request in requests)
        reasons: dict[int, str] = {}
        runs: list[_Run] = []
        for request in requests:
            run = self._run_for(request, asking)
            if isinstance(run, str):
                reasons[request.slot_id] = run
            else:
                runs.append(run)
        for group in _groups(runs, self._batch.capacity):
            self._fuse(group)
            self._draft(group, asking)
        drafts = {run.request.slot_id: Draft(run.draft, "" if run.draft else "no room") for run in runs}
        return [drafts.get(request.slot_id) or Draft([], reasons[request.slot_id]) for request in requests]

    def states_for_rows(self, hidden: Hidden) -> Hidden:
        """What rows carry, from the target's states."""
        return hidden

    def _run_for(self, request: DraftRequest, asking: frozenset[int]) -> _Run | str:
        """A draft to begin, or why there is none this round."""
        tokens, slot_id = request.token_ids, request.slot_id
        track = self._head.track(slot_id)
        if track.trail.end < len(tokens) - 1:
            return "the target's states are not known yet"
        position = self._align(slot_id)
        if position >= len(tokens):  # asked again, because the target had no room: the last row is needed once more
            position = len(tokens) - 1
            self._head.rewind(slot_id, position)
        if len(tokens) - position > self._batch.capacity:
            self._catch_up(slot_id, tokens, asking)
            return "catching up"
        hidden = track.trail.read(position - 1, len(tokens) - 1)
        return _Run(request, tokens[position:], hidden, position, list(tokens))

    def _fuse(self, runs: list[_Run]) -> None:
        """Turn the target's states into what rows carry, in one go for all."""
        fused = self.states_for_rows(np.concatenate([run.hidden for run in runs]))
        starts = np.cumsum([len(run.hidden) for run in runs])[:-1]
        for run, hidden in zip(runs, np.split(fused, starts), strict=True):
            run.hidden = hidden

    def _align(self, slot_id: int) -> int:
        """Position of the next token to feed, whose state in front is in the trail."""
        track = self._head.track(slot_id)
        if track.trail.first == track.held:
            # The state at the seam of a reused prefix is not kept, and the first token of all has none in front.
            track.trail.pad(track.held - 1)
        elif track.trail.first > track.held:
            self._head.restart(slot_id, track.trail.first + 1)
        return track.held

    def _catch_up(self, slot_id: int, token_ids: list[int], in_use: frozenset[int]) -> None:
        """Feed what is known, in as many calls as it takes: a chunk of prompt at most."""
        track = self._head.track(slot_id)
        if track.trail.end <= track.trail.first:
            return
        position = self._align(slot_id)
        stop = min(len(token_ids), track.trail.end + 1)
        while position < stop:
            end = min(stop, position + self._batch.capacity)
            hidden = self.states_for_rows(track.trail.read(position - 1, end - 1))
            self._batch.clear()
            self._batch.add_hidden(hidden, position - self._head.first_token, slot_id, 0, token_ids[position:end])
            if not self._head.decode(self._batch, in_use):
                return
            position = end
            self._keep(slot_id, end)

    def _draft(self, runs: list[_Run], asking: frozenset[int]) -> None:
        """One call for all rows that are true, then one per further token; what is drafted is taken back."""
        active = runs
        is_first = True
        while active:
            rows = self._decode(active, asking)
            if rows is None:
                break
            logits = self._head.context.logits()
            for run, (output, row) in zip(active, rows, strict=True):
                if is_first:
                    self._keep(run.request.slot_id, len(run.tokens))
                proposal = run.request.propose(logits[output], run.tokens)
                run.position += len(run.pending)
                run.hidden = self._head.states(row, 1)
                run.draft.append(proposal)
                run.tokens.append(proposal.token_id)
                run.pending = [proposal.token_id]
            is_first = False
            active = [run for run in active if not run.request.is_met(run.draft, self._target.is_end)]
        for run in runs:
            self._head.rewind(run.request.slot_id, self._head.track(run.request.slot_id).held)

    def _keep(self, slot_id: int, held: int) -> None:
        """The true rows are in; the state in front of the last one stays, in case it is fed again."""
        track = self._head.track(slot_id)
        track.held = held
        track.trail.drop(held - 2)

    def _decode(self, runs: list[_Run], asking: frozenset[int]) -> list[tuple[int, int]] | None:
        """Index of each run's last row among the rows with logits and among all rows; None when there is no room."""
        self._batch.clear()
        rows = []
        for run in runs:
            outputs = len(run.pending) if self._has_all_outputs else 1
            slot_id, position = run.request.slot_id, run.position - self._head.first_token
            first_output = self._batch.add_hidden(run.hidden, position, slot_id, outputs, run.pending)
            rows.append((first_output + outputs - 1, self._batch.n_tokens - 1))
        return rows if self._head.decode(self._batch, asking) else None


def _groups(runs: list[_Run], capacity: int) -> list[list[_Run]]:
    """As few calls as their rows allow."""
    groups: list[list[_Run]] = []
    room = 0
    for run in runs:
        if not groups or len(run.pending) > room:
            groups.append([])
            room = capacity
        groups[-1].append(run)
        room -= len(run.pending)
    return groups
