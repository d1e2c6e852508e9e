"""Misuse that would abort the process is refused in Python; the KV cache does what the engine counts on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import KV_TYPES, ContextParams
from homespec.engine.llama.model import Model
from homespec.errors import DecodeError, KvCacheFull, ModelUnsupported
from tests.kits.models import Models

pytestmark = pytest.mark.real

TEXT = [int(token) for token in np.random.default_rng(0).integers(0, 256, 300)]


@pytest.fixture(scope="module")
def model(models: Models) -> Iterator[Model]:
    loaded = Model(models.random)
    yield loaded
    loaded.close()


@pytest.fixture
def context(model: Model) -> Iterator[Context]:
    opened = Context(
        model, ContextParams(n_ctx=256, n_seq_max=4, n_outputs_max=8, n_batch=64, kv_type="bf16", flash_attention="on")
    )
    yield opened
    opened.close()


def decode(
    context: Context, token_ids: list[int], first_pos: int, seq_id: int = 0, num_outputs: int = 1
) -> NDArray[np.float32]:
    """Logits of the last rows, copied."""
    batch = Batch(64)
    for start in range(0, len(token_ids), 64):
        chunk = token_ids[start : start + 64]
        batch.clear()
        batch.add(chunk, first_pos + start, seq_id, num_outputs)
        context.decode(batch)
    return np.copy(context.logits())


def test_a_context_is_made_without_a_complaint(context: Context) -> None:
    assert not [line for line in context.log if "pooling" in line]


def test_a_batch_over_its_capacity_is_refused_and_stays_as_it_was() -> None:
    batch = Batch(8)
    batch.add([1, 2, 3, 4, 5], 0, 0, 1)
    with pytest.raises(ValueError, match="batch of 9 rows is over its capacity of 8"):
        batch.add([1, 2, 3, 4], 5, 0, 1)
    assert (batch.n_tokens, batch.n_outputs) == (5, 1)


def test_the_index_of_a_row_of_logits_counts_the_rows_that_have_some() -> None:
    batch = Batch(32)
    assert batch.add([1, 2, 3], 0, 0, 1) == 0
    assert batch.add([1, 2, 3], 0, 1, 3) == 1
    assert batch.add([1, 2, 3], 0, 2, 0) == 4
    assert batch.add([9], 3, 0, 1) == 4
    assert (batch.n_tokens, batch.n_outputs) == (10, 5)
    batch.clear()
    assert batch.add([9], 0, 0, 1) == 0


def test_more_rows_than_the_context_takes_are_refused_not_an_abort(context: Context) -> None:
    batch = Batch(128)
    batch.add(TEXT[:65], 0, 0, 1)
    with pytest.raises(ValueError, match="65 rows are over n_batch 64"):
        context.decode(batch)


def test_more_rows_of_logits_than_planned_are_refused_not_an_abort(context: Context) -> None:
    batch = Batch(64)
    batch.add(TEXT[:9], 0, 0, 9)
    with pytest.raises(ValueError, match="9 output rows are over n_outputs_max 8"):
        context.decode(batch)
    assert decode(context, TEXT[:9], 0, num_outputs=8).shape == (8, 288)


def test_a_full_cache_is_told_and_changes_nothing(context: Context) -> None:
    decode(context, TEXT[:250], 0)
    batch = Batch(64)
    batch.add(TEXT[:10], 0, 1, 1)
    with pytest.raises(KvCacheFull, match="no room for 10 more tokens in a context of 256"):
        context.decode(batch)
    assert context.kv_length(0) == 250
    assert context.kv_length(1) == 0
    before = decode(context, TEXT[250:252], 250)
    context.trim(0, 250)
    assert np.array_equal(decode(context, TEXT[250:252], 250), before)


def test_a_gap_in_the_positions_is_an_error_and_not_a_wrong_answer(context: Context) -> None:
    decode(context, TEXT[:5], 0)
    batch = Batch(64)
    batch.add([1], 7, 0, 1)
    with pytest.raises(DecodeError, match="returned -1 for 1 rows"):
        context.decode(batch)


def test_trimmed_tokens_leave_no_trace(context: Context) -> None:
    expected = decode(context, TEXT[:40], 0)
    context.clear(0)
    decode(context, [*TEXT[:30], *reversed(TEXT[:20])], 0)
    context.trim(0, 30)
    assert context.kv_length(0) == 30
    assert np.array_equal(decode(context, TEXT[30:40], 30), expected)


def test_a_copied_prefix_goes_its_own_way(context: Context) -> None:
    expected = decode(context, TEXT[:40], 0)
    context.copy(0, 1, 20)
    assert context.kv_length(1) == 20
    assert np.array_equal(decode(context, TEXT[20:40], 20, seq_id=1), expected)
    other = decode(context, [7], 40, seq_id=1)
    assert np.array_equal(decode(context, [7], 40, seq_id=0), other)
    context.clear(0)
    assert context.kv_length(0) == 0
    assert context.kv_length(1) == 41


@pytest.mark.parametrize("width", [2, 3, 5, 8])
def test_rows_decoded_together_have_the_bits_of_rows_decoded_one_by_one(context: Context, width: int) -> None:
    decode(context, TEXT[:50], 0)
    together = decode(context, TEXT[50 : 50 + width], 50, num_outputs=width)
    context.trim(0, 50)
    for row in range(width):
        alone = decode(context, [TEXT[50 + row]], 50 + row)[0]
        assert np.array_equal(alone.view(np.uint32), together[row].view(np.uint32))


def test_neighbours_do_not_see_one_another(context: Context) -> None:
    alone = decode(context, TEXT[:30], 0, seq_id=0)
    context.clear(0)
    decode(context, TEXT[100:160], 0, seq_id=1)
    decode(context, TEXT[200:220], 0, seq_id=2)
    assert np.array_equal(decode(context, TEXT[:30], 0, seq_id=3), alone)


def test_a_view_of_logits_follows_the_last_call(context: Context) -> None:
    decode(context, TEXT[:30], 0, num_outputs=1)
    assert context.logits().shape == (1, 288)
    decode(context, TEXT[30:38], 30, num_outputs=8)
    assert context.logits().shape == (8, 288)


@pytest.mark.parametrize("kv_type", KV_TYPES)
def test_every_kv_type_on_offer_can_be_used(models: Models, kv_type: str) -> None:
    """The demo model's heads are 64 wide: quantised caches need a multiple of 32."""
    model = Model(models.random_drafter)
    try:
        context = Context(
            model, ContextParams(n_ctx=256, n_seq_max=1, n_outputs_max=1, kv_type=kv_type, flash_attention="on")
        )
    except ModelUnsupported:
        assert kv_type.startswith("q")  # heads of 16 are too narrow for it
    else:
        assert np.isfinite(decode(context, TEXT[:20], 0)).all()
        assert context.memory.kv_bytes > 0
        context.close()
    finally:
        model.close()


def test_an_impossible_context_is_refused_with_a_remedy(model: Model) -> None:
    with pytest.raises(ModelUnsupported, match=r"no context of 256 tokens .*--ctx"):
        Context(model, ContextParams(n_ctx=256, n_seq_max=1000, n_outputs_max=1))
