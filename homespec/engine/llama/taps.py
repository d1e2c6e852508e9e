"""Hidden states of a context's last call, which heads read beside the logits.

llama.cpp keeps them in the output buffer for every row of the call, whatever rows had logits: 4 bytes times width times
n_batch for each tapped layer. They are on from the first call on, and stay on while their head is out: switching one
makes the graph be reserved anew, which gives no memory back, and another graph may fuse other operations, so the last
bits of an answer could move with the drafter. The architecture must have the tap: else the next call aborts (see
`drafters/pair.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from homespec.engine.llama.library import library

Hidden = NDArray[np.float32]
"""Hidden states, shape (rows, width)."""

Listener = Callable[[int, int, Hidden], None]
"""Slot, position of the first row, and the rows."""


@dataclass(frozen=True, slots=True)
class TapPlan:
    """Which hidden states a context gives out."""

    layers: tuple[int, ...] = ()
    """Layers whose inputs are wanted; empty: the state behind the last layer, which next-token heads read."""


class Taps:
    """The hidden states of one context. Rows are in the order of the batch; several layers lie side by side."""

    def __init__(self, handle: Any, plan: TapPlan, n_embd: int) -> None:
        self.plan = plan
        self.width = n_embd * max(1, len(plan.layers))
        self._handle = handle
        self._n_embd = n_embd
        self._listener: Listener | None = None
        for layer in plan.layers:
            library().extension("llama_set_embeddings_layer_inp")(handle, layer, True)
        if not plan.layers:
            # Not masked: with some rows masked, the graphs of heads return the first rows in the place of the last.
            library().extension("llama_set_embeddings_nextn")(handle, True, False)

    def rows(self, first: int, count: int) -> Hidden:
        """A copy of `count` rows of the last call."""
        if not self.plan.layers:
            return self._read(library().extension("llama_get_embeddings_nextn")(self._handle), first, count)
        read = library().extension("llama_get_embeddings_layer_inp")
        return np.concatenate(
            [self._read(read(self._handle, layer), first, count) for layer in self.plan.layers], axis=1
        )

    def listen(self, listener: Listener | None) -> None:
        """Whom to tell of new rows; one head at a time."""
        self._listener = listener

    def publish(self, slot_id: int, position: int, first_row: int, count: int) -> None:
        """Tokens of a slot, from `position` on, are decoded and kept: tell the listener, if there is one."""
        if self._listener is not None and count:
            self._listener(slot_id, position, self.rows(first_row, count))

    def _read(self, address: int, first: int, count: int) -> Hidden:
        row_bytes = self._n_embd * np.dtype(np.float32).itemsize
        copied = ctypes.string_at(address + first * row_bytes, count * row_bytes)
        return np.frombuffer(copied, np.float32).reshape(count, self._n_embd)
