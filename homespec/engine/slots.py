"""Slots: the sequence ids of the KV cache, and the prefixes that finished requests leave in them.

Attention sums over the cells of the unified cache in the order in which they lie, and new tokens go to the lowest free
cells. So a sequence whose tokens do not lie in the order of their positions gets other last bits than the same sequence
in an empty cache. A request that runs alone is therefore started only above everything that is kept; when there are
holes below (a prefix was given up, or several requests ran at once), the cache is emptied but for the prefix it starts
with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class KvCache(Protocol):
    """What slots need of a context."""

    @property
    def can_share(self) -> bool: ...

    def copy(self, source: int, destination: int, n_past: int) -> None: ...

    def trim(self, seq_id: int, n_past: int) -> None: ...

    def save(self, seq_id: int) -> Any: ...

    def restore(self, seq_id: int, saved: Any) -> None: ...

    def clear(self, seq_id: int) -> None: ...

    def can_trim(self, seq_id: int, n_past: int) -> bool: ...

    def kv_length(self, seq_id: int) -> int: ...


@dataclass(slots=True)
class Slot:
    """One sequence id. Idle slots keep their tokens for later requests."""

    id: int
    token_ids: list[int] = field(default_factory=list)
    """What the KV cache holds; while busy, what it held when last released or shared."""
    partition: str = ""
    busy: bool = False
    in_order: bool = True
    """Its tokens lie in the cache in the order of their positions."""
    last_used: int = 0


@dataclass(frozen=True, slots=True)
class Acquired:
    """A slot for a sequence, and the prefix it starts with."""

    slot: Slot
    num_cached_tokens: int
    source_id: int | None
    """The slot that the prefix was shared from."""
    in_order: bool
    """As long as it runs alone, every token of the sequence lies above the one before it."""
    emptied: bool = False
    """Everything else that was kept has been dropped for it."""


class Slots:
    """All slots of one context. A prefix is shared by reference, so reusing one costs no KV memory."""

    def __init__(
        self,
        kv: KvCache,
        num_slots: int,
        *,
        on_clear: Callable[[int], None] = lambda _id: None,
        only_in_order: bool = False,
    ) -> None:
        """only_in_order: do not even start from a prefix that does not lie in order."""
        self._kv = kv
        self._only_in_order = only_in_order
        self._on_clear = on_clear
        self._clock = 0
        self._has_holes = False
        self.slots = [Slot(index) for index in range(num_slots)]

    def acquire(self, prompt_ids: list[int], partition: str, *, alone: bool = False, reuse: bool = True) -> Acquired:
        """A free slot that holds the longest known prefix of the prompt, at most all but its last token.

        The least recently used idle slot is given up for it, preferably an empty one; the one shared from only when
        there is no other. There must be an idle slot. alone: no other slot is busy. reuse: False finds no prefix.
        """
        source, num_cached = self._longest_prefix(prompt_ids, partition) if reuse else (None, 0)
        slot = source if source is not None and not self._kv.can_share else self._free_slot(source)
        emptied = alone and self._would_scatter(slot, source)
        if emptied:
            self._compact(slot, source, num_cached)
        elif source is slot:
            self._kv.trim(slot.id, num_cached)
        else:
            self._forget(slot)
            if source is not None:
                self._kv.copy(source.id, slot.id, num_cached)
                self._touch(source)
        slot.busy = True
        slot.partition = partition
        slot.in_order = alone and (source is None or source.in_order)
        slot.token_ids = prompt_ids[:num_cached]
        self._touch(slot)
        return Acquired(slot, num_cached, None if source is None else source.id, slot.in_order, emptied)

    def compact(self, slot_id: int, num_tokens: int) -> bool:
        """Give up everything but one running sequence, without losing its order; False when there is nothing else."""
        slot = self.slots[slot_id]
        if not any(other.token_ids for other in self.slots if other is not slot):
            return False
        self._compact(slot, slot, num_tokens)
        return True

    def scatter(self) -> None:
        """Several sequences run at once, or cells below others were freed: the next lone request must start afresh."""
        self._has_holes = True

    def share(self, slot_id: int, token_ids: list[int]) -> None:
        """A busy slot has these tokens in the KV cache now: later requests may start from them."""
        self.slots[slot_id].token_ids = token_ids

    def release(self, slot_id: int, token_ids: list[int], *, in_order: bool = True) -> None:
        """The sequence is done; its tokens stay for later requests."""
        slot = self.slots[slot_id]
        slot.busy = False
        slot.in_order = slot.in_order and in_order
        slot.token_ids = token_ids
        self._touch(slot)

    def discard(self, slot_id: int) -> None:
        """The sequence is preempted or broken: give its KV memory back."""
        self._forget(self.slots[slot_id])

    def evict_idle(self) -> bool:
        """Drop the least recently used kept prefix; False when there is none."""
        kept = [slot for slot in self.slots if not slot.busy and slot.token_ids]
        if not kept:
            return False
        self._forget(min(kept, key=lambda slot: slot.last_used))
        return True

    def num_used_tokens(self, computed: Mapping[int | None, int]) -> int:
        """An upper bound: prefixes that slots share count more than once. computed: of those that are busy, by id."""
        return sum(computed.get(slot.id, len(slot.token_ids)) for slot in self.slots)

    def repair(self) -> list[str]:
        """Compare the books with the cache, while nothing runs, and give up what differs; one line for each slot."""
        faults = []
        for slot in self.slots:
            if (held := self._kv.kv_length(slot.id)) != len(slot.token_ids):
                faults.append(
                    f"slot {slot.id} holds {held} tokens in the KV cache and {len(slot.token_ids)} in the books"
                )
                self._forget(slot)
        return faults

    def _longest_prefix(self, prompt_ids: list[int], partition: str) -> tuple[Slot | None, int]:
        best: Slot | None = None
        best_length = 0
        for slot in self.slots:
            if slot.partition != partition or not slot.token_ids or (self._only_in_order and not slot.in_order):
                continue
            if slot.busy and not self._kv.can_share:
                continue
            length = min(common_prefix_length(slot.token_ids, prompt_ids), len(prompt_ids) - 1)
            if length > best_length and self._kv.can_trim(slot.id, length):
                best, best_length = slot, length
        return best, best_length

    def _would_scatter(self, slot: Slot, source: Slot | None) -> bool:
        """Whether giving up `slot` leaves free cells below others, or there are some already."""
        others = [other for other in self.slots if other is not slot and other.token_ids]
        return self._has_holes or (slot is not source and bool(slot.token_ids) and bool(others))

    def _compact(self, slot: Slot, source: Slot | None, num_kept: int) -> None:
        """Empty the cache but for the first tokens of `source`, which move into `slot`."""
        saved = None
        if source is not None:
            self._kv.trim(source.id, num_kept)
            saved = self._kv.save(source.id)
        # Slot by slot: the exactness probe has a sequence of its own, which may be half-way through.
        for other in self.slots:
            self._kv.clear(other.id)
            if other is not slot:
                other.token_ids = []
                if other is not source:
                    self._on_clear(other.id)
        if saved is not None:
            self._kv.restore(slot.id, saved)
        self._has_holes = False

    def _free_slot(self, source: Slot | None) -> Slot:
        idle = [slot for slot in self.slots if not slot.busy]
        others = [slot for slot in idle if slot is not source] or idle
        return min(others, key=lambda slot: (bool(slot.token_ids), slot.last_used))

    def _forget(self, slot: Slot) -> None:
        if slot.token_ids and any(other.token_ids for other in self.slots if other is not slot):
            self._has_holes = True
        self._kv.clear(slot.id)
        self._on_clear(slot.id)
        slot.token_ids = []
        slot.busy = False

    def _touch(self, slot: Slot) -> None:
        self._clock += 1
        slot.last_used = self._clock


def common_prefix_length(left: list[int], right: list[int]) -> int:
    """Number of equal leading items."""
    limit = min(len(left), len(right))
    low = 0
    # Whole blocks compare at C speed; only the block with the difference is walked.
    while low < limit and left[low : low + 256] == right[low : low + 256]:
        low += 256
    low = min(low, limit)
    while low < limit and left[low] == right[low]:
        low += 1
    return low
