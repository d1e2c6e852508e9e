"""Reading prompts into the KV cache, one chunk at a time."""

from __future__ import annotations

from homespec.engine.drafters.roster import Roster
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.interrupt import Interrupt
from homespec.engine.sequence import Sequence
from homespec.errors import Interrupted


class Prefill:
    """Owned by the scheduler thread; any thread may set `hurry`."""

    def __init__(self, context: Context, roster: Roster, *, chunk: int) -> None:
        self._context = context
        self._roster = roster
        self._chunk = chunk
        self._batch = Batch(context.params.n_batch)
        self.hurry = Interrupt()
        """While it is set, a chunk that is being read is given up."""

    def step(self, sequence: Sequence) -> int:
        """Read a chunk of a prompt, which the drafters of the request follow; how many tokens it had.

        0 when something was more urgent: it is read anew after that. Raises KvCacheFull before anything has changed.
        """
        assert sequence.slot_id is not None
        start = sequence.num_computed_tokens
        # Chunks end at multiples of the chunk size, so a prompt is cut in the same places whatever was reused.
        end = min(start - start % self._chunk + self._chunk, len(sequence.token_ids))
        self._batch.clear()
        is_last = end == len(sequence.token_ids)
        self._batch.add(sequence.token_ids[start:end], start, sequence.slot_id, num_outputs=int(is_last))
        try:
            self._context.decode_unless(self.hurry, self._batch)
        except Interrupted:
            return 0
        sequence.num_computed_tokens = end
        if self._context.taps is not None:
            self._context.taps.publish(sequence.slot_id, start, 0, end - start)
        self._roster.prefill(sequence.request.speculation.mode, sequence.slot_id, sequence.token_ids[:end])
        return end - start
