"""What all heads have in common: a context of their own that follows the target's hidden states, slot by slot."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from homespec.engine.drafters.kind import DFLASH, DSPARK, MTP, Head
from homespec.engine.drafters.trail import Trail
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.taps import Hidden, TapPlan
from homespec.engine.llama.vocab import Vocab
from homespec.errors import KvCacheFull
from homespec.status import ModelMemory

MIN_BATCH, MAX_BATCH = 64, 128
"""Rows per call of a head. Its logits buffer has as many rows, whatever is asked for (llama.cpp takes it for an
encoder), so it stays small."""

Decode = Callable[[Batch], None]


def head_params(target: Context, head: Head, *, rows_per_slot: int, num_running: int) -> ContextParams:
    """A head's context has the target's positions, slots and KV type, and room for a row block of every slot.

    A dry run asks here too, so it cannot disagree with the real load.
    """
    n_batch = min(max(MIN_BATCH, rows_per_slot * num_running), MAX_BATCH)
    is_mtp, fills_blocks = head.kind == MTP, head.kind in (DFLASH, DSPARK)
    return ContextParams(
        n_ctx=target.n_ctx,
        n_seq_max=target.params.n_seq_max,
        n_outputs_max=target.params.n_seq_max if is_mtp else n_batch,
        n_batch=n_batch,
        n_threads=target.params.n_threads,
        kv_type=target.params.kv_type,
        flash_attention=target.params.flash_attention,
        taps=None if fills_blocks and not (head.has_confidence or head.has_selector) else TapPlan(),
        is_mtp=is_mtp,
        # Rows of a block see one another, unless the file says otherwise.
        is_causal=head.is_causal if fills_blocks else True,
    )


@dataclass(slots=True)
class Track:
    """How far a head is with one sequence."""

    trail: Trail
    held: int
    """Tokens that its KV cache stands for; the next one to feed is at this position."""


class HeadContext:
    """A head's context and its tracks. The target's taps keep it up to date; it may be behind, never ahead.

    Hidden states exist only for tokens that the target decodes while the head is loaded. Where a prefix is reused, the
    head's own cache of it is shared too, if there is one; else the head begins behind it and drafts worse for a while.
    """

    def __init__(self, context: Context, target: Context, *, first_token: int, limit: int, owns_model: bool) -> None:
        """first_token: position of the token that its first cell stands for. limit: see Trail."""
        self.context = context
        self.first_token = first_token
        self.tracks: dict[int, Track] = {}
        self.memory: ModelMemory = context.memory_with_model if owns_model else context.memory
        self._owns_model = owns_model
        self._limit = limit
        assert target.taps is not None
        self._taps = target.taps
        self._taps.listen(self.observe)

    def track(self, slot_id: int) -> Track:
        known = self.tracks.get(slot_id)
        if known is None:
            known = self.tracks[slot_id] = Track(Trail(self._taps.width, self._limit), self.first_token)
        return known

    def observe(self, slot_id: int, position: int, hidden: Hidden) -> None:
        """The target has decoded and kept tokens of a slot."""
        self.track(slot_id).trail.extend(position, hidden)

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        """See Drafter.begin."""
        source = self.tracks.get(source_id) if source_id is not None else None
        if source_id != slot_id:
            self.close(slot_id)
        if source_id is None or source is None:
            return
        held = max(self.first_token, min(source.held, num_shared))
        if not self.context.can_trim(source_id, held - self.first_token):
            held = self.first_token
        if source_id != slot_id:
            self.context.copy(source_id, slot_id, held - self.first_token)
            source = self.tracks[slot_id] = replace(source, trail=source.trail.copy())
        source.trail.cut(num_shared)
        self.rewind(slot_id, held)

    def rewind(self, slot_id: int, held: int) -> None:
        """Keep what stands for the first `held` tokens."""
        self.context.trim(slot_id, held - self.first_token)
        self.tracks[slot_id].held = held

    def restart(self, slot_id: int, held: int) -> None:
        """Forget the cache, and go on from a token further on: what lies between is not known."""
        self.context.clear(slot_id)
        self.tracks[slot_id].held = held

    def close(self, slot_id: int) -> None:
        if self.tracks.pop(slot_id, None) is not None:
            self.context.clear(slot_id)

    def decode(self, batch: Batch, in_use: Set[int]) -> bool:
        """Decode rows of slots in use; False when there is no room for them even without all others."""
        while True:
            try:
                self.context.decode(batch)
            except KvCacheFull:
                idle = {slot_id for slot_id, track in self.tracks.items() if track.held > self.first_token} - in_use
                if not idle:
                    return False
                for slot_id in idle:
                    self.close(slot_id)
            else:
                return True

    def states(self, first: int, count: int) -> Hidden:
        """Rows that the last call of the head itself gave."""
        assert self.context.taps is not None
        return self.context.taps.rows(first, count)

    def shutdown(self) -> None:
        self._taps.listen(None)
        self.tracks.clear()
        self.context.close()
        if self._owns_model:
            self.context.model.close()


class HeadDrafter:
    """What every drafter over a head's context does the same way; see Drafter."""

    def __init__(self, name: str, head: HeadContext, target: Vocab) -> None:
        self.name = name
        self.memory = head.memory
        self._head = head
        self._target = target

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        self._head.begin(slot_id, source_id, num_shared)

    def close(self, slot_id: int) -> None:
        self._head.close(slot_id)

    def shutdown(self) -> None:
        self._head.shutdown()
