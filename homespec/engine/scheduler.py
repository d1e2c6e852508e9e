"""Continuous batching: one thread that owns llama.cpp and every sequence.

Each step takes messages, admits, advances all decoding sequences by one round, and prefills one chunk of one prompt.
Prompt chunks do not share a batch with verify rows: the kernels that llama.cpp picks depend on the number of rows, so a
neighbour's prompt could change the last bits of another request's logits.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable

from homespec.engine.costs import Costs
from homespec.engine.drafters.orders import obey
from homespec.engine.drafters.roster import Roster
from homespec.engine.embedding.embedder import Embedder, EmbeddingJob
from homespec.engine.exactness import DISTRIBUTION, Exactness
from homespec.engine.idle_work import IdleWork
from homespec.engine.inbox import Inbox, Task
from homespec.engine.llama.context import Context
from homespec.engine.outbox import Outbox
from homespec.engine.pace import Pace
from homespec.engine.prefill import Prefill
from homespec.engine.report import speculation_report, speculation_status
from homespec.engine.round import Round
from homespec.engine.sequence import Sequence
from homespec.engine.slots import Slots
from homespec.errors import KvCacheFull
from homespec.frames import DrafterOrder, Frame, Happened, Snapshot
from homespec.status import DeviceMemory, EngineCounters, EngineSnapshot, ModelMemory, RequestPhase

logger = logging.getLogger("homespec.engine.scheduler")


class Scheduler:
    """Owns the context, the slots and the roster. `post` and `progress` may be used by any thread, nothing else."""

    def __init__(
        self,
        context: Context,
        roster: Roster,
        *,
        num_running: int,
        prefill_chunk: int,
        max_draft_tokens: int,
        send: Callable[[Frame], None],
        exactness: Exactness,
        costs: Costs | None = None,
        embedder: Embedder | None = None,
        devices: Callable[[], tuple[DeviceMemory, ...]] = tuple,
    ) -> None:
        """costs: of the controller that decides about D; without it D is `max_draft_tokens`."""
        self._context = context
        self._roster = roster
        self._num_running = num_running
        self._max_draft_tokens = max_draft_tokens
        self._outbox = Outbox(send, context.model.vocab)
        self._devices = devices
        self.exactness = exactness
        self._slots = Slots(
            context, context.params.n_seq_max - 1, on_clear=roster.close, only_in_order=exactness.required
        )
        self.costs = costs
        self._round = Round(
            context,
            roster,
            max_draft_tokens=max_draft_tokens,
            pad_single=exactness.pad_single,
            controller=costs.controller if costs is not None else None,
        )
        self._prefill = Prefill(context, roster, chunk=prefill_chunk)
        self.idle_work = IdleWork(context, self._slots, exactness, costs, send=send)
        self._embedder = embedder
        self._inbox = Inbox()
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._pace = Pace()
        self.progress = 0
        """Grows with every step; a busy scheduler whose progress stands still hangs."""
        self.counters = EngineCounters()

    # Any thread

    def post(self, task: Task) -> None:
        """Run `task` on the scheduler's thread before its next step."""
        self._inbox.post(task)

    def post_urgent(self, task: Task) -> None:
        """The same, and a chunk of a prompt that is being read does not hold it up."""
        self._inbox.post(task)
        self._prefill.hurry.set()

    @property
    def busy(self) -> bool:
        return bool(self._running or self._waiting or self._embeds)

    @property
    def _embeds(self) -> bool:
        return self._embedder is not None and self._embedder.busy

    # The scheduler's thread

    def run(self) -> None:
        """Step while there is work, else wait for a message."""
        while True:
            self.take_messages(wait=not self.busy and not self.idle_work.is_pending)
            was_busy = self.busy
            if was_busy:
                self.step()
            else:
                self.idle_work.step()
            is_done = was_busy and not self.busy
            if is_done:
                self._repair()
            # The last snapshot before a wait must show that nothing runs any more.
            self._report(force=is_done)

    def take_messages(self, *, wait: bool) -> None:
        """Do all that was posted; with `wait`, wait a moment for the first of it."""
        self._prefill.hurry.clear()  # first: what comes from here on is not overlooked
        self._inbox.run(wait=wait)

    def submit(self, sequence: Sequence) -> None:
        self._roster.ask(sequence.request.speculation.mode)
        self._waiting.append(sequence)
        self.counters.requests += 1

    def embed(self, job: EmbeddingJob) -> None:
        assert self._embedder is not None, "a request to embed is refused where nothing embeds"
        self._embedder.submit(job)
        self.counters.requests += 1

    def cancel(self, request_id: str) -> None:
        """Drop a request; its slot is free before the next step. Unknown ids are ignored: it may just have finished."""
        for sequence in [each for each in self._running if each.id == request_id]:
            self._release(sequence)
        for sequence in [each for each in self._waiting if each.id == request_id]:
            self._waiting.remove(sequence)
        if self._embedder is not None:
            self._embedder.cancel(request_id)

    def obey(self, order: DrafterOrder) -> None:
        """Change which drafters there are; everybody sees it at once."""
        obey(self._roster, order)
        self._report(force=True)

    def step(self) -> None:
        """Admit, one round, one chunk of prefill, one of a text that is embedded."""
        self._admit()
        decoding = [sequence for sequence in self._running if sequence.num_pending_tokens == 1]
        if decoding:
            self._advance(decoding)
        prefilling = next((sequence for sequence in self._running if sequence.num_pending_tokens > 1), None)
        if prefilling is not None or self._embeds:
            for sequence in decoding:  # a chunk takes long: nobody's text waits for it
                self._outbox.send_text(sequence)
        if prefilling is not None:
            self._read_prompt(prefilling)
        if self._embedder is not None and self._embedder.busy:
            self.counters.prompt_tokens += self._embedder.step()
        self.progress += 1

    def _repair(self) -> None:
        """A wrong prefix would spoil every answer that starts from it: it costs less to look than to trust."""
        for fault in self._slots.repair():
            logger.error("%s; given up", fault)
            self._outbox.send(Happened("engine", f"KV cache repaired: {fault}"))

    def _admit(self) -> None:
        while len(self._running) < self._num_running and (sequence := self._next()) is not None:
            self._waiting.remove(sequence)
            self.idle_work.interrupt()
            request, is_alone = sequence.request, not self._running
            acquired = self._slots.acquire(sequence.token_ids, request.partition, alone=is_alone, reuse=request.reuse)
            sequence.slot_id = acquired.slot.id
            sequence.num_computed_tokens = acquired.num_cached_tokens
            if sequence.started_at is None:
                sequence.started_at = time.monotonic()
                sequence.num_cached_tokens = acquired.num_cached_tokens
                self.counters.cached_tokens += acquired.num_cached_tokens
            self._roster.begin(acquired.slot.id, acquired.source_id, acquired.num_cached_tokens)
            if acquired.emptied and acquired.source_id not in (None, acquired.slot.id):
                self._roster.close(acquired.source_id)  # the drafters' caches are tidied where the target's is
            sequence.in_order = sequence.in_order and acquired.in_order
            self._running.append(sequence)
            if len(self._running) > 1:
                self._slots.scatter()
                for each in self._running:
                    each.in_order = False

    def _next(self) -> Sequence | None:
        """The first that waits, and not for a prompt that is being read: choices of one request read theirs once.

        Its own could not be read before that is done in any case.
        """
        reading = [each for each in self._running if each.phase is RequestPhase.PREFILL and self._context.can_share]
        return next((each for each in self._waiting if not any(map(each.may_start_from, reading))), None)

    def _advance(self, decoding: list[Sequence]) -> None:
        draft = True
        while decoding:
            try:
                self._round.run(decoding, draft=draft)
                break
            except KvCacheFull:
                if not self._make_room():
                    draft = False
                decoding = [sequence for sequence in decoding if sequence.slot_id is not None]
        self.counters.rounds += bool(decoding)
        for sequence in decoding:
            self._emit(sequence)

    def _read_prompt(self, sequence: Sequence) -> None:
        """A chunk of it, and the first token once it is read."""
        try:
            self.counters.prompt_tokens += self._prefill.step(sequence)
        except KvCacheFull:
            self._make_room()
            return
        if not sequence.num_pending_tokens:
            assert sequence.slot_id is not None
            self._slots.share(sequence.slot_id, sequence.token_ids[:])
            self._round.take_first(sequence)
            self._emit(sequence)

    def _make_room(self) -> bool:
        """Free KV memory: the probe's, else a kept prefix, else the youngest of several running sequences.

        False when none of these is there. A preempted sequence goes back to the head of the queue and is computed
        again later.
        """
        if self.idle_work.give_way():
            return True
        if len(self._running) == 1:
            only = self._running[0]
            assert only.slot_id is not None
            return self._slots.compact(only.slot_id, only.num_computed_tokens)
        if self._slots.evict_idle():
            return True
        youngest = max(self._running, key=lambda sequence: sequence.received_at)
        assert youngest.slot_id is not None
        self._slots.discard(youngest.slot_id)
        self._running.remove(youngest)
        youngest.slot_id = None
        youngest.num_computed_tokens = 0
        self._waiting.appendleft(youngest)
        self.counters.preemptions += 1
        return True

    def _emit(self, sequence: Sequence) -> None:
        self.counters.output_tokens += sequence.num_output_tokens - sequence.num_emitted_tokens
        sequence.num_emitted_tokens = sequence.num_output_tokens
        self._outbox.send_due(sequence)
        if sequence.finished:
            self._finish(sequence)

    def _finish(self, sequence: Sequence) -> None:
        self._release(sequence)
        if sequence.error is None:
            request, answer = sequence.request, sequence.token_ids[sequence.num_prompt_tokens :]
            self._roster.remember(request.partition, answer, lasting=not request.salted)
        self._outbox.send_end(sequence, speculation_report(sequence, self._roster, self._exactness_of(sequence)))

    def _exactness_of(self, sequence: Sequence) -> str:
        """The verdict is about rows of logits, in a sequence whose cells lie as they did when it was measured."""
        holds = sequence.in_order and sequence.sampler.is_invariant
        return self.exactness.verdict.label if holds else DISTRIBUTION

    def _release(self, sequence: Sequence) -> None:
        assert sequence.slot_id is not None
        tokens = sequence.token_ids[: sequence.num_computed_tokens]
        self._slots.release(sequence.slot_id, tokens, in_order=sequence.in_order)
        self._running.remove(sequence)
        self._round.forget(sequence)

    def _report(self, *, force: bool) -> None:
        if self._pace.is_due(force=force):
            self._outbox.send(Snapshot(self.snapshot()))

    def snapshot(self) -> EngineSnapshot:
        self.counters.skipped_drafts = dict(self._round.skipped)
        self.counters.draft_s, self.counters.verify_s = self._round.draft_s, self._round.verify_s
        context = self._context
        embedder = self._embedder
        computed = {sequence.slot_id: sequence.num_computed_tokens for sequence in self._running}
        return EngineSnapshot(
            speculation=speculation_status(self._roster, self._round.totals, self._max_draft_tokens, self.costs),
            counters=self.counters,
            requests=(
                *(sequence.status() for sequence in [*self._running, *self._waiting]),
                *(embedder.requests() if embedder is not None else ()),
            ),
            target_memory=context.memory_with_model + (embedder.context.memory if embedder else ModelMemory()),
            drafter_memory=self._roster.memory,
            kv_used_tokens=min(self._slots.num_used_tokens(computed), context.n_ctx),
            kv_total_tokens=context.n_ctx,
            devices=self._devices(),
        )
