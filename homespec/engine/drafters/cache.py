"""The KV cache of a drafter that follows the target's sequences token by token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from homespec.engine.drafters.window import NUM_SINKS, WHOLE, Window
from homespec.engine.llama.context import Context
from homespec.engine.slots import common_prefix_length


@dataclass(slots=True)
class _Held:
    """What the cache holds for one slot."""

    token_ids: list[int] = field(default_factory=list)
    window: Window = WHOLE
    is_shared: bool = False
    """Another slot may use the same cells: they must not move."""


class FollowingCache:
    """Books of what a context holds per slot, compared with the sequence at every call.

    Of a sequence longer than `window` it holds the first tokens and the last ones.
    """

    def __init__(self, context: Context, window: int) -> None:
        """window: most tokens of one sequence, drafted ones included; at least 256."""
        self._context = context
        self.window = window
        self._slots: dict[int, _Held] = {}
        self._has_holes = False
        """There are free cells below others: what is decoded next would not lie in order (see engine/slots.py)."""

    def __getitem__(self, slot_id: int) -> list[int]:
        """The tokens of a slot; grow it with what has been decoded."""
        return self._held(slot_id).token_ids

    def __iter__(self) -> Iterator[int]:
        return iter(self._slots)

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        """See Drafter.begin. A shared prefix costs no memory."""
        if source_id == slot_id:  # the slot goes on with what it has; the next call trims it
            if num_shared < self._held(slot_id).window.end:
                self.close(slot_id)
            return
        self.close(slot_id)
        if source_id is None:
            return
        source = self._held(source_id)
        count = min(num_shared - source.window.num_dropped, len(source.token_ids))
        if num_shared >= source.window.end and count > 0 and self._context.can_trim(source_id, count):
            self._context.copy(source_id, slot_id, count)
            source.is_shared = True
            self._slots[slot_id] = _Held(source.token_ids[:count], source.window, is_shared=True)

    def rewind(self, slot_id: int, token_ids: list[int], num_more: int = 0) -> list[int]:
        """Take back what does not belong to the sequence; return what is still to decode, at least the last token.

        Makes room in the window for `num_more` tokens behind them.
        """
        held = self._held(slot_id)
        self._tidy(slot_id, held)
        if len(token_ids) <= held.window.end:
            held.window = WHOLE
        seen = held.window.of(token_ids)
        keep = min(common_prefix_length(held.token_ids, seen), len(seen) - 1)
        self._keep(slot_id, held, keep)
        if len(seen) + num_more > self.window:
            self._slide(slot_id, held, len(token_ids) + num_more)
            seen = held.window.of(token_ids)
        return seen[len(held.token_ids) :]

    def close(self, slot_id: int) -> None:
        held = self._slots.pop(slot_id, None)
        if held is not None and held.token_ids:
            self._context.clear(slot_id)
            self._has_holes = any(other.token_ids for other in self._slots.values())

    def forget(self) -> None:
        """The context is about to be closed."""
        self._slots.clear()

    def _held(self, slot_id: int) -> _Held:
        return self._slots.setdefault(slot_id, _Held())

    def _keep(self, slot_id: int, held: _Held, count: int) -> None:
        if count < len(held.token_ids):
            self._context.trim(slot_id, count)
            del held.token_ids[count:]

    def _slide(self, slot_id: int, held: _Held, num_tokens: int) -> None:
        """Make the window fit: by turning keys where that can be done, else by decoding its last half again."""
        turns = self._context.can_shift and not held.is_shared
        moved = held.window.slid(num_tokens, self.window, self.window // (4 if turns else 2))
        count = moved.num_dropped - held.window.num_dropped
        held.window = moved
        if turns and len(held.token_ids) > NUM_SINKS + count:
            self._context.shift(slot_id, NUM_SINKS, count)
            del held.token_ids[NUM_SINKS : NUM_SINKS + count]
            return
        # A sliding attention window of the model's own may have forgotten the first tokens.
        self._keep(slot_id, held, NUM_SINKS if self._context.can_trim(slot_id, NUM_SINKS) else 0)
        held.is_shared = False  # the first tokens never move

    def _tidy(self, slot_id: int, held: _Held) -> None:
        """Lay the cells of a slot that has the cache to itself in the order of positions, as in an empty cache."""
        if not self._has_holes or any(other.token_ids for other in self._slots.values() if other is not held):
            return
        if held.token_ids:
            saved = self._context.save(slot_id)
            self._context.clear(slot_id)
            self._context.restore(slot_id, saved)
        self._has_holes = held.is_shared = False
