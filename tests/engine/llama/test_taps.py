"""Taps give out hidden states and change nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.engine.llama.taps import Hidden, TapPlan
from tests.kits.heads_kit import TAPPED, WIDTH, deep_random, dense_markov, mtp_markov
from tests.kits.models import Models

pytestmark = pytest.mark.real

TEXT = [int(token) for token in np.random.default_rng(0).integers(0, 256, 200)]
LAYERS = TapPlan(TAPPED)
LAST_STATE = TapPlan()


@pytest.fixture
def model(models: Models) -> Iterator[Model]:
    loaded = Model(models.write("deep-random", deep_random(1)))
    yield loaded
    loaded.close()


def opened(model: Model, taps: TapPlan | None) -> Context:
    params = ContextParams(
        n_ctx=256, n_seq_max=4, n_outputs_max=64, n_batch=64, kv_type="bf16", flash_attention="on", taps=taps
    )
    return Context(model, params)


def decode(context: Context, token_ids: list[int], first_pos: int, seq_id: int = 0, num_outputs: int = 1) -> None:
    batch = Batch(64)
    batch.add(token_ids, first_pos, seq_id, num_outputs)
    context.decode(batch)


def logits_of(context: Context) -> NDArray[np.uint32]:
    """Bits of the logits after a prompt, a block of rows, and a single row."""
    rows = []
    for start, stop, outputs in ((0, 50, 1), (50, 58, 8), (58, 59, 1)):
        decode(context, TEXT[start:stop], start, num_outputs=outputs)
        rows.append(context.logits().copy())
    return np.concatenate(rows).view(np.uint32)


@pytest.mark.parametrize("taps", [LAYERS, LAST_STATE])
def test_logits_keep_every_bit(model: Model, models: Models, taps: TapPlan) -> None:
    source = Model(models.write("mtp-markov", mtp_markov(models.chain)), load_mtp=True) if taps == LAST_STATE else model
    contexts = [opened(source, None), opened(source, taps)]
    plain, tapped = (logits_of(context) for context in contexts)
    for context in contexts:
        context.close()
    if source is not model:
        source.close()
    assert np.array_equal(plain, tapped)


def states_of(context: Context, token_ids: list[int], *, step: int, num_outputs: int = 1) -> Hidden:
    """States of all tokens, read chunk by chunk."""
    assert context.taps is not None
    context.clear(0)
    rows = []
    for start in range(0, len(token_ids), step):
        chunk = token_ids[start : start + step]
        decode(context, chunk, start, num_outputs=min(num_outputs, len(chunk)))
        rows.append(context.taps.rows(0, len(chunk)))
    return np.concatenate(rows)


def test_every_row_has_its_state_whatever_rows_have_logits(model: Model) -> None:
    context = opened(model, LAYERS)
    expected = states_of(context, TEXT[:60], step=60)
    assert expected.shape == (60, len(TAPPED) * WIDTH)
    for step, outputs in ((60, 0), (60, 60), (7, 3), (1, 1), (1, 0)):
        assert np.allclose(states_of(context, TEXT[:60], step=step, num_outputs=outputs), expected, atol=1e-4)
    context.close()


def test_the_input_of_a_layer_that_adds_nothing_is_the_embedding(models: Models) -> None:
    with_zero_layers = Model(models.write("dense-markov", dense_markov(models.chain)))
    context = opened(with_zero_layers, LAYERS)
    states = states_of(context, [5, 9, 5], step=3)
    for layer in range(1, len(TAPPED)):
        assert np.array_equal(states[:, :WIDTH], states[:, layer * WIDTH : (layer + 1) * WIDTH])
    assert np.array_equal(states[0], states[2])
    assert not np.allclose(states[0], states[1])
    context.close()
    with_zero_layers.close()


def test_rows_are_copies_in_the_order_of_the_batch(model: Model) -> None:
    context = opened(model, LAYERS)
    assert context.taps is not None
    batch = Batch(64)
    batch.add(TEXT[:5], 0, 2, 0)
    batch.add(TEXT[10:17], 0, 1, 7)
    context.decode(batch)
    first, second = context.taps.rows(0, 5), context.taps.rows(5, 7)
    kept = first.copy()
    assert np.allclose(states_of(context, TEXT[:5], step=5), first, atol=1e-4)
    assert np.allclose(states_of(context, TEXT[10:17], step=7), second, atol=1e-4)
    assert np.array_equal(first, kept)
    context.close()


def test_only_a_listener_is_told(model: Model) -> None:
    context = opened(model, LAYERS)
    assert context.taps is not None
    heard: list[tuple[int, int, int]] = []
    decode(context, TEXT[:5], 0)
    context.taps.publish(3, 0, 0, 5)
    context.taps.listen(lambda slot_id, position, rows: heard.append((slot_id, position, len(rows))))
    context.taps.publish(3, 2, 2, 3)
    context.taps.publish(3, 5, 0, 0)
    context.taps.listen(None)
    context.taps.publish(3, 5, 0, 5)
    assert heard == [(3, 2, 3)]
    context.close()
