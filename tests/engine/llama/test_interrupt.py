"""A call that is given up leaves nothing behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.interrupt import Interrupt
from homespec.engine.llama.model import Model
from homespec.errors import Interrupted
from tests.kits.models import Models

pytestmark = pytest.mark.real

CHUNK = 256


@pytest.fixture(scope="module")
def context(models: Models) -> Iterator[Context]:
    model = Model(models.demo)
    opened = open_context(model)
    yield opened
    opened.close()
    model.close()


def open_context(model: Model) -> Context:
    params = ContextParams(n_ctx=1024, n_seq_max=2, n_outputs_max=1, n_batch=CHUNK, kv_type="bf16")
    return Context(model, params)


def chunk(context: Context, start: int) -> Batch:
    token_ids = np.random.default_rng(start).integers(0, context.model.vocab.n_vocab, CHUNK)
    batch = Batch(CHUNK)
    batch.add([int(token) for token in token_ids], start, 0, 1)
    return batch


def logits_of(context: Context, *starts: int, interrupt: Interrupt | None = None) -> NDArray[np.float32]:
    for start in starts:
        context.decode_unless(interrupt or Interrupt(), chunk(context, start))
    return np.copy(context.logits())


def test_a_call_that_nobody_gives_up_is_an_ordinary_one(context: Context) -> None:
    context.clear(0)
    context.decode(chunk(context, 0))
    plain = np.copy(context.logits())
    context.clear(0)
    assert np.array_equal(logits_of(context, 0), plain)


def test_what_was_given_up_can_be_read_anew(context: Context) -> None:
    context.clear(0)
    undisturbed = logits_of(context, 0, CHUNK)
    context.clear(0)
    interrupt = Interrupt()
    logits_of(context, 0)
    interrupt.set()
    for _ in range(2):
        with pytest.raises(Interrupted, match="256 rows"):
            context.decode_unless(interrupt, chunk(context, CHUNK))
        assert context.kv_length(0) == CHUNK
    interrupt.clear()
    assert np.array_equal(logits_of(context, CHUNK, interrupt=interrupt), undisturbed)


def test_it_ends_in_the_middle_of_a_call(context: Context) -> None:
    """Wherever it is struck."""
    context.clear(0)
    undisturbed = logits_of(context, 0, CHUNK)
    context.trim(0, CHUNK)
    began = time.monotonic()
    logits_of(context, CHUNK)
    whole_s = time.monotonic() - began
    num_given_up = 0
    for part in (0.05, 0.2, 0.4, 0.6):
        context.trim(0, CHUNK)
        interrupt = Interrupt()
        striker = threading.Timer(whole_s * part, interrupt.set)
        striker.start()
        try:
            context.decode_unless(interrupt, chunk(context, CHUNK))
        except Interrupted:
            num_given_up += 1
            assert context.kv_length(0) == CHUNK
            interrupt = Interrupt()
            context.decode_unless(interrupt, chunk(context, CHUNK))
        assert np.array_equal(context.logits(), undisturbed)
        striker.join()
    assert num_given_up


def test_an_ordinary_call_does_not_look(context: Context) -> None:
    """Nor does one after a call that was given up."""
    context.clear(0)
    interrupt = Interrupt()
    interrupt.set()
    with pytest.raises(Interrupted):
        context.decode_unless(interrupt, chunk(context, 0))
    context.decode(chunk(context, 0))
    assert context.kv_length(0) == CHUNK
