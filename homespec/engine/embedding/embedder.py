"""Runs texts through a context of its own and pools their states: on the scheduler's thread, one call a step."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from homespec.engine.embedding.kind import EmbeddingKind
from homespec.engine.embedding.pooling import Pool
from homespec.engine.embedding.reader import EmbeddingReader
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.errors import ErrorInfo
from homespec.frames import Embedded, Frame, Refused
from homespec.status import EmbeddingStatus, RequestPhase, RequestStatus

_SEQ_ID = 0


@dataclass(slots=True)
class EmbeddingJob:
    """One request on its way."""

    request_id: str
    texts: list[list[int]]
    """Token ids, none of them empty or longer than the context."""
    num_dimensions: int | None = None
    """Of the vectors that are asked for; None: all."""
    vectors: list[bytes] = field(default_factory=list)
    num_tokens_done: int = 0
    received_at: float = field(default_factory=time.monotonic)

    @property
    def num_tokens(self) -> int:
        return sum(map(len, self.texts))


class Embedder:
    """Every text runs alone: its vector has the same bits whatever else was asked for at the same time.

    Requests take turns, text by text. The context is not the target's: one that gives out states gives them out for all
    rows of a call, which the target's could not hold.
    """

    def __init__(self, context: Context, kind: EmbeddingKind, send: Callable[[Frame], None]) -> None:
        self._context = context
        self._kind = kind
        self._send = send
        self._batch = Batch(context.params.n_batch)
        self._jobs: deque[EmbeddingJob] = deque()
        self._pool: Pool | None = None
        """Of the text that the first job is at; None between two texts."""
        self._num_done = 0
        """Tokens of that text."""

    @property
    def status(self) -> EmbeddingStatus:
        context = self._context
        return EmbeddingStatus(self._kind.pooling.value, context.model.n_embd_out, context.n_ctx)

    def reader(self) -> EmbeddingReader:
        """What makes requests ready for it; it may be used by another thread."""
        model = self._context.model
        return EmbeddingReader(model.vocab, max_tokens=self._context.n_ctx, width=model.n_embd_out)

    @property
    def context(self) -> Context:
        return self._context

    @property
    def busy(self) -> bool:
        return bool(self._jobs)

    def submit(self, job: EmbeddingJob) -> None:
        self._jobs.append(job)

    def cancel(self, request_id: str) -> None:
        """Drop a request; unknown ids are ignored."""
        if self._jobs and self._jobs[0].request_id == request_id:
            self._pool = None
        self._jobs = deque(job for job in self._jobs if job.request_id != request_id)

    def step(self) -> int:
        """One call of at most `n_batch` tokens; how many they were. Raises DecodeError."""
        job = self._jobs[0]
        token_ids = job.texts[len(job.vectors)]
        if self._pool is None:
            self._context.clear(_SEQ_ID)
            self._pool, self._num_done = Pool(self._kind.pooling), 0
        chunk = token_ids[self._num_done : self._num_done + self._batch.capacity]
        self._batch.clear()
        self._batch.add(chunk, self._num_done, _SEQ_ID, num_outputs=len(chunk))
        self._context.decode(self._batch)
        self._pool.add(self._context.states())
        self._num_done += len(chunk)
        job.num_tokens_done += len(chunk)
        if self._num_done == len(token_ids):
            self._end_text(job, self._pool)
        return len(chunk)

    def requests(self) -> tuple[RequestStatus, ...]:
        now = time.monotonic()
        return tuple(
            replace(
                RequestStatus.waiting(job.request_id, age_s=now - job.received_at),
                phase=RequestPhase.PREFILL if job.num_tokens_done else RequestPhase.WAITING,
                num_prompt_tokens=job.num_tokens,
                num_prefilled_tokens=job.num_tokens_done,
            )
            for job in self._jobs
        )

    def _end_text(self, job: EmbeddingJob, pool: Pool) -> None:
        self._pool = None
        vector = pool.vector(job.num_dimensions)
        if vector is None:
            self._jobs.remove(job)
            message = (
                f"the model's states of input[{len(job.vectors)}] are zero or not finite, so they have no direction"
            )
            self._send(Refused(job.request_id, ErrorInfo(message, 500, "server_error", code="embedding_not_finite")))
            return
        job.vectors.append(vector.astype("<f4").tobytes())
        if len(job.vectors) < len(job.texts):
            self._jobs.rotate(-1)
        else:
            self._jobs.remove(job)
            self._send(Embedded(job.request_id, job.vectors, job.num_tokens))
