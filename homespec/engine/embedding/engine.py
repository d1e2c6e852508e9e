"""The engine of a model that embeds and does nothing else: no slots, no rounds, nothing to draft."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from homespec.engine.embedding.embedder import Embedder, EmbeddingJob
from homespec.engine.embedding.kind import EmbeddingKind
from homespec.engine.embedding.params import embedding_params
from homespec.engine.embedding.reader import EmbeddingReader
from homespec.engine.exactness import Exactness, unchecked
from homespec.engine.inbox import Inbox, Task
from homespec.engine.llama.context import Context
from homespec.engine.llama.vocab import Vocab
from homespec.engine.model_status import model_status
from homespec.engine.pace import Pace
from homespec.engine.target import device_readings, load_target
from homespec.errors import RequestError
from homespec.frames import DrafterOrder, EngineSettings, Frame, SetDrafter, Snapshot
from homespec.status import (
    DeviceMemory,
    DraftState,
    EngineCounters,
    EngineSnapshot,
    ModelMemory,
    ModelStatus,
    SpeculationStatus,
)

_NOTHING_TO_DRAFT = "the model embeds texts and generates none"


class EmbeddingScheduler:
    """The thread that owns llama.cpp, as `Scheduler` is where text is generated. `post`, `progress` and `busy` may be
    used by any thread, nothing else.
    """

    def __init__(
        self,
        embedder: Embedder,
        send: Callable[[Frame], None],
        devices: Callable[[], tuple[DeviceMemory, ...]] = tuple,
    ) -> None:
        self._embedder = embedder
        self._send = send
        self._devices = devices
        self._inbox = Inbox()
        self._mode = "off"
        self._pace = Pace()
        self.exactness = Exactness(unchecked(_NOTHING_TO_DRAFT))
        self.progress = 0
        self.counters = EngineCounters()

    def post(self, task: Task) -> None:
        self._inbox.post(task)

    def post_urgent(self, task: Task) -> None:
        self._inbox.post(task)  # one text at a time is short enough

    @property
    def busy(self) -> bool:
        return self._embedder.busy

    def run(self) -> None:
        while True:
            self._inbox.run(wait=not self.busy)
            was_busy = self.busy
            if was_busy:
                self.step()
            self._report(force=was_busy and not self.busy)

    def step(self) -> None:
        self.counters.prompt_tokens += self._embedder.step()
        self.progress += 1

    def embed(self, job: EmbeddingJob) -> None:
        self._embedder.submit(job)
        self.counters.requests += 1

    def cancel(self, request_id: str) -> None:
        self._embedder.cancel(request_id)

    def obey(self, order: DrafterOrder) -> None:
        """There is no drafter; the switch is remembered and shown."""
        if isinstance(order, SetDrafter):
            self._mode = order.mode

    def snapshot(self) -> EngineSnapshot:
        context = self._embedder.context
        return EngineSnapshot(
            speculation=SpeculationStatus(self._mode, None, DraftState.OFF, _NOTHING_TO_DRAFT, 0, (), {}),
            counters=self.counters,
            requests=self._embedder.requests(),
            target_memory=context.memory_with_model,
            drafter_memory=ModelMemory(),
            kv_used_tokens=0,
            kv_total_tokens=context.n_ctx,
            devices=self._devices(),
        )

    def _report(self, *, force: bool) -> None:
        if self._pace.is_due(force=force):
            self._send(Snapshot(self.snapshot()))


@dataclass(frozen=True, slots=True)
class EmbeddingEngine:
    """Everything that is loaded."""

    context: Context
    scheduler: EmbeddingScheduler
    texts: EmbeddingReader
    status: ModelStatus

    @property
    def vocab(self) -> Vocab:
        return self.context.model.vocab

    def refuse(self) -> NoReturn:
        """To generate. Raises RequestError."""
        raise RequestError(
            f"{self.status.id} is an embedding model: it gives vectors, no text; use /v1/embeddings or /api/embed, or "
            "serve a model that generates",
            param="model",
            code="model_does_not_generate",
        )


def build_embedding_engine(
    settings: EngineSettings, kind: EmbeddingKind, *, send: Callable[[Frame], None]
) -> EmbeddingEngine:
    """Load a model that only embeds. Raises ModelError."""
    model = load_target(settings, send)
    context = Context(model, embedding_params(settings, model, kind))
    embedder = Embedder(context, kind, send)
    return EmbeddingEngine(
        context,
        EmbeddingScheduler(embedder, send, device_readings(settings)),
        embedder.reader(),
        model_status(settings, context, embedding=embedder.status, generates=False),
    )
