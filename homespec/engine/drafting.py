"""How the drafts of a round come about: as requests and settings fix them, or as the controller decides."""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile
from time import perf_counter

from homespec.engine.betting import Asking, Betting, Wanted
from homespec.engine.control.controller import Controller
from homespec.engine.drafted import Drafted
from homespec.engine.drafters.choice import Candidate, Choice
from homespec.engine.drafters.drafter import Drafter, DraftRequest
from homespec.engine.drafters.roster import AUTO, Roster
from homespec.engine.llama.context import Context
from homespec.engine.sampling.sampler import Proposal
from homespec.engine.sequence import Sequence
from homespec.stats import MAX_DRAFT_TOKENS


class Drafting:
    """Owned by the scheduler thread."""

    def __init__(
        self, context: Context, roster: Roster, *, max_draft_tokens: int, controller: Controller | None = None
    ) -> None:
        """controller: decides about D and the drafter; without one D is `max_draft_tokens`."""
        self._context = context
        self._n_vocab = context.model.vocab.n_vocab
        self._roster = roster
        self._max_draft_tokens = max_draft_tokens
        self.betting = Betting(controller, self._make) if controller is not None else None
        self.draft_s: defaultdict[str, float] = defaultdict(float)
        """Seconds that drafters took in this round, by sequence: those that share a call share its time."""

    def draft(self, sequences: list[Sequence]) -> dict[str, Drafted]:
        """A draft, or the reason for none, for each sequence."""
        self.draft_s.clear()
        drafted: dict[str, Drafted] = {}
        fixed: list[tuple[Sequence, Choice]] = []
        asking: list[Asking] = []
        for sequence in sequences:
            choice = self._roster.choose(sequence.request.speculation.mode)
            limit = self.limit(sequence)
            if not choice.candidates or not limit:
                drafted[sequence.id] = Drafted(None, [], "near the end" if choice.candidates else "off")
            elif self.betting is None or _is_pinned(sequence):
                fixed.append((sequence, choice))
            else:
                asking.append(Asking(sequence, choice.drafters, limit, self._forced(sequence)))
        drafted |= self._fixed(fixed)
        if self.betting is not None:
            drafted |= self.betting.draft(asking, sequences, drafted)
        return drafted

    def forget(self, sequence: Sequence) -> None:
        """It has ended. What has lost again and again gives its memory back, between two answers."""
        if self.betting is None:
            return
        controller = self.betting.controller
        controller.forget(sequence.id)
        for name, reason in controller.hopeless().items():
            if self._roster.park(name, reason):
                controller.forgive(name)

    def limit(self, sequence: Sequence) -> int:
        """D may fill neither the context nor the answer: the bonus token needs a place in both."""
        asked = sequence.request.speculation.max_draft_tokens
        limit = self._max_draft_tokens if asked is None else min(asked, MAX_DRAFT_TOKENS)
        if self._context.num_snapshots:
            limit = min(limit, self._context.num_snapshots)
        return max(0, min(limit, self._context.n_ctx - len(sequence.token_ids), sequence.num_tokens_left - 1))

    def _fixed(self, fixed: list[tuple[Sequence, Choice]]) -> dict[str, Drafted]:
        """As much as may be: what a constraint forces, else the first draft that one of the drafters makes."""
        drafted: dict[str, Drafted] = {}
        asking: dict[str, list[tuple[Sequence, Candidate]]] = {name: [] for name in self._roster.names}
        for sequence, choice in fixed:
            if forced := self._forced(sequence):
                drafted[sequence.id] = Drafted.forced(forced)
                continue
            for candidate in choice.candidates:
                asking[candidate.drafter.name].append((sequence, candidate))
        for group in asking.values():
            # One call of each drafter, over all sequences that come to it and have no draft yet.
            left = [each for each in group if each[0].id not in drafted or not drafted[each[0].id].proposals]
            if left:
                drafter = left[0][1].drafter
                wanted = [
                    Wanted(sequence, self.limit(sequence), min_confidence=candidate.min_confidence)
                    for sequence, candidate in left
                ]
                drafts = self._make(drafter, wanted)
                drafted |= {each.sequence.id: draft for each, draft in zip(wanted, drafts, strict=True)}
        return drafted

    def _make(self, drafter: Drafter, wanted: list[Wanted]) -> list[Drafted]:
        """Let a drafter draft, and cut what the target or a constraint would not take."""
        made = []
        started = perf_counter()
        drafts = self._roster.propose(drafter, [_request(each) for each in wanted])
        share_s = (perf_counter() - started) / len(wanted)
        for each, draft in zip(wanted, drafts, strict=True):
            self.draft_s[each.sequence.id] += share_s
            proposals = self._possible(each, draft.proposals)
            reason = draft.reason or "not a token of the target"
            made.append(_legal(each.sequence, Drafted(drafter.name, proposals, reason)))
        return made

    def _possible(self, wanted: Wanted, proposals: list[Proposal]) -> list[Proposal]:
        """Drafters are not trusted: the target gets no more than it has room for, and no token it does not know."""
        return list(takewhile(lambda each: 0 <= each.token_id < self._n_vocab, proposals[: wanted.max_tokens]))

    def _forced(self, sequence: Sequence) -> list[int]:
        return sequence.grammar.forced()[: self.limit(sequence)] if sequence.grammar else []


def _request(wanted: Wanted) -> DraftRequest:
    sequence = wanted.sequence
    assert sequence.slot_id is not None
    return DraftRequest(
        sequence.slot_id,
        sequence.token_ids,
        wanted.max_tokens,
        sequence.sampler.propose,
        partition=sequence.request.partition,
        min_confidence=wanted.min_confidence,
        should_continue=wanted.should_continue,
    )


def _legal(sequence: Sequence, drafted: Drafted) -> Drafted:
    """Cut a draft where the constraint would: the rows behind are wasted work.

    A token that was drawn is judged even so: its probability is part of q, and tokens that lose without having been
    tested would take the target's answer from p instead of (p - q)+.
    """
    if sequence.grammar is None or not drafted.token_ids:
        return drafted
    num_kept = len(sequence.grammar.legal_prefix(drafted.token_ids))
    num_kept += any(each.distribution is not None for each in drafted.proposals[num_kept : num_kept + 1])
    return Drafted(drafted.drafter, drafted.proposals[:num_kept], "not legal")


def _is_pinned(sequence: Sequence) -> bool:
    """The request names drafter and D: it gets exactly that."""
    speculation = sequence.request.speculation
    return speculation.mode != AUTO and speculation.max_draft_tokens is not None
