"""One round over all decoding sequences: draft, verify, accept, trim."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import takewhile

from homespec.engine.drafters.drafter import Drafter, DraftRequest
from homespec.engine.drafters.roster import Roster
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Checkpoint, Context
from homespec.engine.sampling.accept import accept
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.logprobs import token_logprob
from homespec.engine.sampling.sampler import Proposal
from homespec.engine.sequence import Sequence
from homespec.errors import RequestError
from homespec.stats import DraftStats

GRAMMAR = "grammar"
"""Name of the drafter that proposes what a constraint forces; it needs no model and no memory."""

MAX_DRAFT_TOKENS = 16
"""Ceiling of D: sizes the target's output buffer, so no setting may go over it."""


@dataclass(frozen=True, slots=True)
class _Drafted:
    """The draft of one sequence, or why it goes without."""

    drafter: str | None
    proposals: list[Proposal]
    reason: str = ""

    @property
    def token_ids(self) -> list[int]:
        return [proposal.token_id for proposal in self.proposals]

    def proposal(self, row: int) -> Proposal | None:
        """What row `row` judges; None for the row of the bonus token."""
        return self.proposals[row] if row < len(self.proposals) else None


@dataclass(frozen=True, slots=True)
class _Block:
    """The rows of one sequence in a round, and how to take them back."""

    sequence: Sequence
    drafted: _Drafted
    token_ids: list[int]
    checkpoint: Checkpoint


_NO_ROOM = _Drafted(None, [], "KV cache full")


class Round:
    """Advances sequences by one target pass each. Raises KvCacheFull before anything has changed."""

    def __init__(self, context: Context, roster: Roster, *, max_draft_tokens: int, pad_single: bool = False) -> None:
        """pad_single: never decode one row alone, where only that path gives other logits than a batch."""
        self._context = context
        self._vocab = context.model.vocab
        self._roster = roster
        self._max_draft_tokens = max_draft_tokens
        self._pad_single = pad_single
        self._batch = Batch(context.params.n_batch)
        self.totals: defaultdict[str, DraftStats] = defaultdict(DraftStats)
        self.skipped: Counter[str] = Counter()
        """Sequences that went through a round without a draft, by reason."""

    def run(self, sequences: list[Sequence], *, draft: bool = True) -> None:
        """Every sequence must have exactly one pending token. `draft=False` makes a plain step."""
        drafted = self._draft(sequences) if draft else {sequence.id: _NO_ROOM for sequence in sequences}
        blocks = [self._block(sequence, drafted[sequence.id], alone=len(sequences) == 1) for sequence in sequences]
        first_rows = self._verify(blocks)
        try:
            for block, first_row in zip(blocks, first_rows, strict=True):
                self._accept(block, first_row)
        finally:
            # Not before all are judged: taking rows back may need a decode, which overwrites the logits.
            for block in blocks:
                self._take_back(block)

    def draft_limit(self, sequence: Sequence) -> int:
        """D may fill neither the context nor the answer: the bonus token needs a place in both."""
        asked = sequence.request.speculation.max_draft_tokens
        limit = self._max_draft_tokens if asked is None else min(asked, MAX_DRAFT_TOKENS)
        if self._context.num_snapshots:
            limit = min(limit, self._context.num_snapshots)
        return max(0, min(limit, self._context.n_ctx - len(sequence.token_ids), sequence.num_tokens_left - 1))

    def _draft(self, sequences: list[Sequence]) -> dict[str, _Drafted]:
        """One call per drafter, over all sequences that chose it."""
        drafted: dict[str, _Drafted] = {}
        asking: defaultdict[str, list[Sequence]] = defaultdict(list)
        drafters: dict[str, Drafter] = {}
        for sequence in sequences:
            drafter, reason = self._choose(sequence)
            if drafter is None:
                drafted[sequence.id] = _Drafted(None, [], reason)
            elif forced := self._forced(sequence):
                drafted[sequence.id] = _Drafted(GRAMMAR, [Proposal(token) for token in forced])
            else:
                drafters[drafter.name] = drafter
                asking[drafter.name].append(sequence)
        for name, group in asking.items():
            drafts = self._roster.propose(drafters[name], [self._request(sequence) for sequence in group])
            for sequence, draft in zip(group, drafts, strict=True):
                proposals = self._possible(sequence, draft.proposals)
                reason = draft.reason or "not a token of the target"
                drafted[sequence.id] = self._legal(sequence, _Drafted(name, proposals, reason))
        return drafted

    def _possible(self, sequence: Sequence, proposals: list[Proposal]) -> list[Proposal]:
        """Drafters are not trusted: the target gets no more than it has room for, and no token it does not know."""
        n_vocab = self._vocab.n_vocab
        return list(takewhile(lambda each: 0 <= each.token_id < n_vocab, proposals[: self.draft_limit(sequence)]))

    def _forced(self, sequence: Sequence) -> list[int]:
        return sequence.grammar.forced()[: self.draft_limit(sequence)] if sequence.grammar else []

    def _legal(self, sequence: Sequence, drafted: _Drafted) -> _Drafted:
        """Cut a draft where the constraint would: the rows behind are wasted work."""
        if sequence.grammar is None or not drafted.token_ids:
            return drafted
        num_legal = len(sequence.grammar.legal_prefix(drafted.token_ids))
        return _Drafted(drafted.drafter, drafted.proposals[:num_legal], "not legal")

    def _choose(self, sequence: Sequence) -> tuple[Drafter | None, str]:
        choice = self._roster.choose(sequence.request.speculation.mode)
        if choice.drafter is None:
            return None, "off"
        return (choice.drafter, "") if self.draft_limit(sequence) else (None, "near the end")

    def _request(self, sequence: Sequence) -> DraftRequest:
        assert sequence.slot_id is not None
        return DraftRequest(sequence.slot_id, sequence.token_ids, self.draft_limit(sequence), sequence.sampler.propose)

    def _block(self, sequence: Sequence, drafted: _Drafted, *, alone: bool) -> _Block:
        """The last token and its draft; with a second row that nobody reads where a single one must not be."""
        assert sequence.slot_id is not None
        token_ids = [sequence.token_ids[-1], *drafted.token_ids]
        if self._pad_single and alone and len(token_ids) == 1 and len(sequence.token_ids) < self._context.n_ctx:
            token_ids *= 2
        checkpoint = self._context.checkpoint(sequence.slot_id, sequence.num_computed_tokens, len(token_ids))
        return _Block(sequence, drafted, token_ids, checkpoint)

    def _verify(self, blocks: list[_Block]) -> list[int]:
        """One target pass over all blocks; the row of logits that each starts at."""
        self._batch.clear()
        first_rows = []
        for block in blocks:
            assert block.sequence.slot_id is not None
            tokens = block.token_ids
            first_rows.append(
                self._batch.add(tokens, block.checkpoint.n_past, block.sequence.slot_id, num_outputs=len(tokens))
            )
        self._context.decode(self._batch)
        return first_rows

    def _accept(self, block: _Block, first_row: int) -> None:
        """Keep what the target confirms; each kept token confirms the row before it, however this is left."""
        sequence, drafted = block.sequence, block.drafted
        logits = self._context.logits()[first_row:]
        num_kept = num_accepted = 0
        try:
            for token, from_draft in accept(
                drafted.token_ids, lambda row: sequence.choose(logits[row], drafted.proposal(row))
            ):
                row, num_kept = num_kept, num_kept + 1
                num_accepted += from_draft
                if self.keep(sequence, token, logits[row]):
                    break
        except RequestError as error:
            sequence.fail(error.info)
        finally:
            # A stop string takes back tokens that had been kept.
            sequence.num_computed_tokens = min(block.checkpoint.n_past + num_kept, len(sequence.token_ids))
        self._count(sequence, drafted, num_accepted)

    def _take_back(self, block: _Block) -> None:
        """End the target's memory of a sequence where its tokens end."""
        sequence, checkpoint = block.sequence, block.checkpoint
        assert sequence.slot_id is not None
        num_kept = sequence.num_computed_tokens - checkpoint.n_past
        if num_kept == len(block.token_ids):
            return
        if num_kept > 0:
            self._context.roll_back(sequence.slot_id, checkpoint, block.token_ids[:num_kept])
        elif not self._context.model.is_recurrent:
            self._context.trim(sequence.slot_id, sequence.num_computed_tokens)
        else:
            # The answer ended with an error, or with a stop string that began in an earlier round.
            self._context.clear(sequence.slot_id)
            sequence.num_computed_tokens = 0

    def keep(self, sequence: Sequence, token: int, logits: Logits) -> bool:
        """Add a token to the answer, with what was asked for about it; True when it ends the answer."""
        num_top = sequence.request.num_logprobs
        logprob = None if num_top is None else token_logprob(logits, token, num_top)
        return sequence.push(token, self._vocab.piece(token), is_end=self._vocab.is_end(token), logprob=logprob)

    def _count(self, sequence: Sequence, drafted: _Drafted, num_accepted: int) -> None:
        num_drafted = len(drafted.token_ids)
        if drafted.drafter is None or not num_drafted:
            self.skipped[drafted.reason] += 1
            sequence.add_round(None, 0, 0)
            return
        sequence.add_round(drafted.drafter, num_drafted, num_accepted)
        self.totals[drafted.drafter].add_round(num_drafted, num_accepted)
