"""One round over all decoding sequences: draft, verify, accept, trim."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from time import perf_counter

from homespec.engine.control.controller import Controller
from homespec.engine.drafted import Drafted
from homespec.engine.drafters.roster import Roster
from homespec.engine.drafting import Drafting
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Checkpoint, Context
from homespec.engine.sampling.accept import accept
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.logprobs import token_logprob
from homespec.engine.sequence import Sequence
from homespec.errors import RequestError
from homespec.stats import DraftStats

_NO_ROOM = Drafted(None, [], "KV cache full")


@dataclass(slots=True)
class _Block:
    """The rows of one sequence in a round, how to take them back, and what became of them."""

    sequence: Sequence
    drafted: Drafted
    token_ids: list[int]
    """The last token, its draft, and perhaps rows that nobody reads."""
    checkpoint: Checkpoint
    kept: list[int] = field(default_factory=list)
    """Tokens that the round has added to the answer."""
    num_accepted: int = 0
    """Those of them that were drafted."""


class Round:
    """Advances sequences by one target pass each. Raises KvCacheFull before anything has changed."""

    def __init__(
        self,
        context: Context,
        roster: Roster,
        *,
        max_draft_tokens: int,
        pad_single: bool = False,
        controller: Controller | None = None,
    ) -> None:
        """pad_single: never decode one row alone, where only that path gives other logits than a batch. controller:
        see Drafting."""
        self._context = context
        self._vocab = context.model.vocab
        self._pad_single = pad_single
        self._controller = controller
        self._drafting = Drafting(context, roster, max_draft_tokens=max_draft_tokens, controller=controller)
        self._batch = Batch(context.params.n_batch)
        self.totals: defaultdict[str, DraftStats] = defaultdict(DraftStats)
        self.skipped: Counter[str] = Counter()
        """Sequences that went through a round without a draft, by reason."""
        self.draft_s = self.verify_s = 0.0
        """Seconds that drafters and the target's passes took."""

    def run(self, sequences: list[Sequence], *, draft: bool = True) -> None:
        """Every sequence must have exactly one pending token. `draft=False` makes a plain step."""
        drafted = self._drafting.draft(sequences) if draft else dict.fromkeys((each.id for each in sequences), _NO_ROOM)
        started = perf_counter()
        blocks = self._blocks(sequences, drafted, may_fill=draft)
        kept = perf_counter()
        first_rows = self._verify(blocks)
        verify_s, rewind_s = perf_counter() - kept, kept - started
        try:
            for block, first_row in zip(blocks, first_rows, strict=True):
                self._accept(block, first_row)
        finally:
            # Not before all are judged: taking rows back may need a decode, which overwrites the logits.
            started = perf_counter()
            for block in blocks:
                self._take_back(block)
        rewind_s += perf_counter() - started
        self._book(blocks, verify_s + rewind_s)
        if draft and self._drafting.betting is not None:
            if not self._context.copies_state or not any(block.drafted.proposals for block in blocks):
                verify_s, rewind_s = verify_s + rewind_s, 0.0  # nothing that a draft would be to blame for
            results = [(block.sequence, block.kept, block.num_accepted) for block in blocks]
            self._drafting.betting.observe(self._batch.n_tokens, verify_s, rewind_s, drafted, results)

    def take_first(self, sequence: Sequence) -> None:
        """The token that follows a prompt, whose last chunk has just been read."""
        logits = self._context.logits()[0]
        try:
            self._keep(sequence, sequence.choose(logits), logits)
        except RequestError as error:
            sequence.fail(error.info)

    def forget(self, sequence: Sequence) -> None:
        """It has ended; between two rounds."""
        self._drafting.forget(sequence)

    def _blocks(self, sequences: list[Sequence], drafted: dict[str, Drafted], *, may_fill: bool) -> list[_Block]:
        rows = [[sequence.token_ids[-1], *drafted[sequence.id].token_ids] for sequence in sequences]
        num_rows = sum(len(each) for each in rows)
        rows[-1] += rows[-1][:1] * self._num_extra(sequences[-1], len(rows[-1]), num_rows, may_fill=may_fill)
        return [
            self._block(sequence, drafted[sequence.id], each) for sequence, each in zip(sequences, rows, strict=True)
        ]

    def _block(self, sequence: Sequence, drafted: Drafted, token_ids: list[int]) -> _Block:
        assert sequence.slot_id is not None
        checkpoint = self._context.checkpoint(sequence.slot_id, sequence.num_computed_tokens, len(token_ids))
        return _Block(sequence, drafted, token_ids, checkpoint)

    def _num_extra(self, last: Sequence, num_own: int, num_rows: int, *, may_fill: bool) -> int:
        """Rows that nobody reads: where a single one must not be decoded, or where more rows take less time."""
        wanted = 2 if self._pad_single and num_rows == 1 else num_rows
        if self._controller is not None and may_fill and not self._context.model.is_recurrent:
            wanted = max(wanted, self._controller.rows_to_decode(num_rows))
        room = self._context.n_ctx - last.num_computed_tokens - num_own
        return max(0, min(wanted, self._context.params.n_outputs_max) - num_rows) if room >= wanted - num_rows else 0

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
        self._context.logits()  # where the device works on its own, only this waits for it
        return first_rows

    def _accept(self, block: _Block, first_row: int) -> None:
        """Keep what the target confirms; each kept token confirms the row before it, however this is left."""
        sequence, drafted = block.sequence, block.drafted
        logits = self._context.logits()[first_row:]
        start = len(sequence.token_ids)
        num_kept = 0
        try:
            for token, from_draft in accept(
                drafted.token_ids, lambda row: sequence.choose(logits[row], drafted.proposal(row))
            ):
                row, num_kept = num_kept, num_kept + 1
                block.num_accepted += from_draft
                if self._keep(sequence, token, logits[row], from_draft=from_draft):
                    break
        except RequestError as error:
            sequence.fail(error.info)
        finally:
            # A stop string takes back tokens that had been kept.
            sequence.num_computed_tokens = min(block.checkpoint.n_past + num_kept, len(sequence.token_ids))
        self._publish(block, first_row)
        block.kept = sequence.token_ids[start:]
        self._count(block)

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

    def _book(self, blocks: list[_Block], verify_s: float) -> None:
        """Each sequence's share of the time that the round took: of the target's pass by its rows."""
        self.verify_s += verify_s
        num_rows = sum(len(block.token_ids) for block in blocks)
        for block in blocks:
            draft_s = self._drafting.draft_s.pop(block.sequence.id, 0.0)
            self.draft_s += draft_s
            block.sequence.draft_s += draft_s
            block.sequence.verify_s += verify_s * len(block.token_ids) / num_rows

    def _publish(self, block: _Block, first_row: int) -> None:
        """Hidden states of the kept rows, for a head that reads them. Every row had logits, so both count alike."""
        count = block.sequence.num_computed_tokens - block.checkpoint.n_past
        if self._context.taps is not None and count > 0:
            assert block.sequence.slot_id is not None
            self._context.taps.publish(block.sequence.slot_id, block.checkpoint.n_past, first_row, count)

    def _keep(self, sequence: Sequence, token: int, logits: Logits, *, from_draft: bool = False) -> bool:
        """Add a token to the answer, with what was asked for about it; True when it ends the answer."""
        num_top = sequence.request.num_logprobs
        logprob = None if num_top is None else token_logprob(logits, token, num_top)
        is_end = self._vocab.is_end(token)
        return sequence.push(token, self._vocab.piece(token), is_end=is_end, logprob=logprob, from_draft=from_draft)

    def _count(self, block: _Block) -> None:
        sequence, drafted = block.sequence, block.drafted
        num_drafted = len(drafted.proposals)
        sequence.decision = drafted.decision
        if drafted.drafter is None or not num_drafted:
            self.skipped[drafted.reason] += 1
            sequence.skipped[drafted.reason] += 1
            sequence.add_round(None, 0, 0)
            return
        sequence.add_round(drafted.drafter, num_drafted, block.num_accepted)
        self.totals[drafted.drafter].add_round(num_drafted, block.num_accepted)
