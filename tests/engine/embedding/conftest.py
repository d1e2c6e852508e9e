from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from homespec.engine.embedding.embedder import EmbeddingJob
from homespec.engine.embedding.engine import EmbeddingEngine, build_embedding_engine
from homespec.engine.embedding.kind import embedding_kind
from homespec.frames import Embed, Embedded, EngineSettings, Frame

Floats = NDArray[np.float32]
_ids = itertools.count(1)


class Embedding:
    """An engine that embeds, driven step by step."""

    def __init__(self, model: Path, **settings: Any) -> None:
        self.settings = EngineSettings(model_path=str(model), model_id="test", threads=1, **settings)
        self.frames: list[Frame] = []
        kind = embedding_kind(model, self.settings.embeddings)
        assert kind is not None
        self.engine: EmbeddingEngine = build_embedding_engine(self.settings, kind, send=self.frames.append)

    def submit(self, *inputs: str | list[int], **fields: Any) -> str:
        request = Embed(f"e{next(_ids)}", list(inputs), **fields)
        texts, _ = self.engine.texts.read(request)
        self.engine.scheduler.embed(EmbeddingJob(request.request_id, texts, request.dimensions))
        return request.request_id

    def drain(self) -> None:
        while self.engine.scheduler.busy:
            self.engine.scheduler.step()

    def answer(self, request_id: str) -> Embedded:
        [found] = [each for each in self.frames if isinstance(each, Embedded) and each.request_id == request_id]
        return found

    def vectors(self, *inputs: str | list[int], **fields: Any) -> list[Floats]:
        request_id = self.submit(*inputs, **fields)
        self.drain()
        return [np.frombuffer(vector, "<f4") for vector in self.answer(request_id).vectors]

    def close(self) -> None:
        self.engine.context.close()
        self.engine.context.model.close()


Open = Callable[..., Embedding]


@contextmanager
def embedding(model: Path, **settings: Any) -> Iterator[Embedding]:
    engine = Embedding(model, **settings)
    try:
        yield engine
    finally:
        engine.close()


@pytest.fixture
def opened() -> Iterator[Open]:
    """Opens engines and closes them."""
    engines: list[Embedding] = []

    def open_engine(model: Path, **settings: Any) -> Embedding:
        engines.append(Embedding(model, **settings))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()
