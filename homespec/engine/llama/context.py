"""A llama_context: decode rows, read logits, take tokens back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from homespec.engine.llama.batch import Batch
from homespec.engine.llama.bindings import C
from homespec.engine.llama.context_params import KV_TYPES, ContextParams
from homespec.engine.llama.crew import Crew
from homespec.engine.llama.interrupt import Interrupt
from homespec.engine.llama.library import library
from homespec.engine.llama.log import failure_in, memory_of, native_log
from homespec.engine.llama.model import Load, Model
from homespec.engine.llama.taps import TapPlan, Taps
from homespec.errors import DecodeError, Interrupted, KvCacheFull, ModelUnsupported
from homespec.status import ModelMemory

_SHIFTABLE = ("f16", "f32")
_FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
_NO_KV_SLOT, _ABORTED = 1, 2
_RECURRENT_PART = 1
"""LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: keys and values are left out, they can be cut."""

State = ctypes.Array[ctypes.c_uint8]

# A second binding that returns the address: making an array from a POINTER costs a tenth of a millisecond per round.
_logits_address = C._lib["llama_get_logits"]
_logits_address.argtypes = [ctypes.c_void_p]
_logits_address.restype = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What it takes to bring a sequence back to `n_past` tokens."""

    n_past: int
    state: State | None = None
    """The recurrent part of the memory; None where rows can simply be taken back."""


class Context:
    """One KV cache and its compute buffers. Used by one thread at a time; closed before its model."""

    def __init__(
        self, model: Model, params: ContextParams, *, other: Context | None = None, crew: Crew | None = None
    ) -> None:
        """other: the context that a head borrows embeddings and output weights from; it must outlive this one. crew:
        one that is shared; by default the one of `other`, else one of its own.
        """
        self.model = model
        self.params = params
        native = C.llama_context_default_params()
        native.n_ctx = params.n_ctx
        native.n_batch = native.n_ubatch = params.n_batch
        native.n_seq_max = params.n_seq_max
        native.n_outputs_max = max(params.n_outputs_max, params.n_seq_max)
        native.n_threads, native.n_threads_batch = params.n_threads, params.n_threads_batch or params.n_threads
        native.type_k = native.type_v = KV_TYPES[params.kv_type]
        native.flash_attn_type = _FLASH_ATTENTION[params.flash_attention]
        native.kv_unified = True
        native.swa_full = False
        native.n_rs_seq = params.n_rs_seq
        native.embeddings = params.gives_states
        native.pooling_type = C.LLAMA_POOLING_TYPE_NONE
        native.ctx_type = C.LLAMA_CONTEXT_TYPE_MTP if params.is_mtp else C.LLAMA_CONTEXT_TYPE_DEFAULT
        native.ctx_other = other.handle if other is not None else None
        with native_log.capture(debug=model.load is Load.SIZES) as lines:
            self.handle: Any = C.llama_init_from_model(model.handle, native)
        if not self.handle:
            raise ModelUnsupported(
                f"no context of {params.n_ctx} tokens for {model.path}: "
                f"{failure_in(lines) or 'llama.cpp gave no reason'}; try a smaller --ctx or another --kv-type"
            )
        self.log = tuple(lines)
        self.memory = memory_of(lines, library().offload_devices())
        self.n_ctx = params.n_ctx
        self._kv = C.llama_get_memory(self.handle)
        self._replay = Batch(params.n_batch)
        self._n_outputs = 0
        self.n_outputs_max = int(native.n_outputs_max)
        self._logits_at = 0
        self._logits = np.empty((0, model.vocab.n_vocab), np.float32)
        if not params.is_causal:
            C.llama_set_causal_attn(self.handle, False)
        self.crew: Crew = crew or (other.crew if other is not None else Crew())
        self._threads = (native.n_threads, native.n_threads_batch)
        self.taps = None if params.taps is None else Taps(self.handle, params.taps, self._tap_width(params.taps))

    def _tap_width(self, plan: TapPlan) -> int:
        """Of one state: what leaves the last layer may be wider than what lies between layers."""
        return self.model.n_embd if plan.layers else self.model.n_embd_out

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """From the next call on."""
        self.params = replace(self.params, n_threads=n_threads, n_threads_batch=n_threads_batch)

    def decode(self, batch: Batch) -> None:
        """Run all rows of `batch`. Raises KvCacheFull (nothing changed) or DecodeError (context unusable)."""
        if batch.n_tokens > self.params.n_batch:
            raise ValueError(f"{batch.n_tokens} rows are over n_batch {self.params.n_batch}")
        if batch.n_outputs > self.n_outputs_max:
            raise ValueError(f"{batch.n_outputs} output rows are over n_outputs_max {self.n_outputs_max}")
        self._call_crew()
        result = C.llama_decode(self.handle, batch.seal())
        if result == _NO_KV_SLOT:
            raise KvCacheFull(f"no room for {batch.n_tokens} more tokens in a context of {self.n_ctx}")
        if result == _ABORTED:
            raise Interrupted(f"{batch.n_tokens} rows were given up")
        if result != 0:
            reason = failure_in(reversed(native_log.recent())) or "no reason given"
            raise DecodeError(f"llama_decode returned {result} for {batch.n_tokens} rows: {reason}")
        self._n_outputs = batch.n_outputs

    def decode_unless(self, interrupt: Interrupt, batch: Batch) -> None:
        """The same for a call that may be given up; raises Interrupted when it was, and then nothing has changed.

        A recurrent memory could not be brought back: there the call always ends.
        """
        if self._is_recurrent:
            self.decode(batch)
            return
        with interrupt.armed(self.handle):
            self.decode(batch)

    def encode(self, batch: Batch) -> None:
        """Run all rows of `batch` through the encoder, which has no memory. Raises DecodeError."""
        if batch.n_tokens > self.params.n_batch:
            raise ValueError(f"{batch.n_tokens} rows are over n_batch {self.params.n_batch}")
        self._call_crew()
        result = C.llama_encode(self.handle, batch.seal())
        if result != 0:
            raise DecodeError(f"llama_encode returned {result} for {batch.n_tokens} rows")

    def logits(self) -> NDArray[np.float32]:
        """Logits of the last call, shape (output rows, n_vocab): a view, valid until the next decode."""
        address = _logits_address(self.handle)
        if address != self._logits_at:  # the buffer moves when it grows
            size = self.n_outputs_max * self.model.vocab.n_vocab
            flat = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))
            self._logits_at, self._logits = address, flat.reshape(self.n_outputs_max, -1)
        return self._logits[: self._n_outputs]

    def states(self) -> NDArray[np.float32]:
        """States behind the last layer of the last call's rows, a copy of shape (rows, n_embd_out); of a context that
        was made to give them.
        """
        flat = C.llama_get_embeddings(self.handle)
        return np.ctypeslib.as_array(flat, (self._n_outputs, self.model.n_embd_out)).copy()

    def trim(self, seq_id: int, n_past: int) -> None:
        """Keep the first `n_past` tokens of a sequence. Raises DecodeError where the memory cannot do that."""
        if not C.llama_memory_seq_rm(self._kv, seq_id, n_past, -1):
            raise DecodeError(f"sequence {seq_id} cannot be rolled back to {n_past} tokens")

    def clear(self, seq_id: int) -> None:
        """Forget a sequence; never fails."""
        C.llama_memory_seq_rm(self._kv, seq_id, -1, -1)

    def copy(self, source: int, destination: int, n_past: int) -> None:
        """Let `destination` share the first `n_past` tokens of `source`; costs no KV memory (unified cache)."""
        C.llama_memory_seq_cp(self._kv, source, destination, 0, n_past)

    @property
    def can_shift(self) -> bool:
        """Whether `shift` works: llama.cpp turns keys of these types only, and not for every kind of position."""
        return self.params.kv_type in _SHIFTABLE and bool(C.llama_memory_can_shift(self._kv))

    def shift(self, seq_id: int, start: int, count: int) -> None:
        """Drop `count` tokens from position `start` on; those behind move up to it. Their cells must not be shared.

        The keys are turned to their new positions with the next decode.
        """
        if not C.llama_memory_seq_rm(self._kv, seq_id, start, start + count):
            raise DecodeError(f"sequence {seq_id} cannot give up {count} tokens from {start} on")
        C.llama_memory_seq_add(self._kv, seq_id, start + count, -1, -count)

    def save(self, seq_id: int) -> State:
        """The memory of a sequence, as bytes."""
        return self._save(seq_id, flags=0)

    def restore(self, seq_id: int, saved: State) -> None:
        """Give a sequence, which must be empty, what `save` has returned: cell by cell in the order of positions."""
        self._restore(seq_id, saved, flags=0)

    def checkpoint(self, seq_id: int, n_past: int, num_rows: int | None = None) -> Checkpoint:
        """Make sure that the sequence, which has `n_past` tokens, can be brought back after some more are decoded.

        num_rows: all of them in one call, and at least the first will stay; None: in any number of calls. Costs
        nothing but for recurrent memories without enough snapshots, whose state is copied.
        """
        if not self._is_recurrent or (num_rows is not None and num_rows <= self.num_snapshots + 1):
            return Checkpoint(n_past)
        return Checkpoint(n_past, self._save(seq_id, _RECURRENT_PART))

    def roll_back(self, seq_id: int, checkpoint: Checkpoint, kept: Sequence[int] = ()) -> None:
        """Keep the first `n_past` tokens of the checkpoint, and of the rows decoded since then `kept`, the first ones.

        Where a state was copied it is put back and `kept` is decoded once more, so rows of logits are lost. Raises
        DecodeError where the memory cannot do it.
        """
        if checkpoint.state is None:
            self.trim(seq_id, checkpoint.n_past + len(kept))
            return
        if not checkpoint.n_past:
            self.clear(seq_id)
        else:
            # The state first: a recurrent memory refuses to cut what is behind its own end.
            self._restore(seq_id, checkpoint.state, _RECURRENT_PART)
            self.trim(seq_id, checkpoint.n_past)
        if kept:
            self._replay.clear()
            self._replay.add(kept, checkpoint.n_past, seq_id, num_outputs=0)
            self.decode(self._replay)

    @cached_property
    def _is_recurrent(self) -> bool:
        return self.model.is_recurrent and not self.params.is_mtp  # an MTP block has attention only

    @cached_property
    def num_snapshots(self) -> int:
        """Rows of one call that a recurrent memory can take back by itself; 0 where a state must be copied for it."""
        return int(C.llama_n_rs_seq(self.handle)) if self._is_recurrent else 0

    @property
    def copies_state(self) -> bool:
        """Whether more than one row in a call can only be taken back with a copy of the state."""
        return self._is_recurrent and not self.num_snapshots

    @property
    def can_share(self) -> bool:
        """Whether several sequences can share a prefix: a running state belongs to one."""
        return not self._is_recurrent

    def can_trim(self, seq_id: int, n_past: int) -> bool:
        """Whether the sequence still holds what a continuation after `n_past` tokens attends to.

        A sliding window forgets old tokens: trimming below its reach succeeds and then gives garbage. A recurrent
        state holds all of its tokens or none.
        """
        if self._is_recurrent:
            return n_past == self.kv_length(seq_id)
        if not self.model.n_swa:
            return True
        return bool(C.llama_memory_seq_pos_min(self._kv, seq_id) <= max(0, n_past - self.model.n_swa))

    def kv_length(self, seq_id: int) -> int:
        """Tokens that the KV cache holds for a sequence, as llama.cpp counts them."""
        return int(C.llama_memory_seq_pos_max(self._kv, seq_id)) + 1

    @property
    def memory_with_model(self) -> ModelMemory:
        """What the context and its model hold together."""
        return self.model.memory + self.memory

    @property
    def flash_attention(self) -> bool:
        return self.params.flash_attention != "off"

    def _call_crew(self) -> None:
        wanted = self.params.n_threads, self.params.n_threads_batch or self.params.n_threads
        threads = self.crew.cut(wanted[0]), self.crew.cut(wanted[1])
        if threads != self._threads:
            C.llama_set_n_threads(self.handle, *threads)
            self._threads = threads

    def _save(self, seq_id: int, flags: int) -> State:
        size = int(C.llama_state_seq_get_size_ext(self.handle, seq_id, flags))
        saved = (ctypes.c_uint8 * size)()
        if C.llama_state_seq_get_data_ext(self.handle, saved, size, seq_id, flags) != size:
            raise DecodeError(f"the memory of sequence {seq_id} ({size} bytes) could not be copied")
        return saved

    def _restore(self, seq_id: int, saved: State, flags: int) -> None:
        if not C.llama_state_seq_set_data_ext(self.handle, saved, len(saved), seq_id, flags):
            raise DecodeError(f"the memory of sequence {seq_id} ({len(saved)} bytes) could not be restored")

    def close(self) -> None:
        if self.handle:
            C.llama_free(self.handle)
            self.handle = None
