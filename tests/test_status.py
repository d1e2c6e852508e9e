"""The shared state: frozen, plain, and without a place for text of prompts or answers."""

from __future__ import annotations

import dataclasses
import inspect
import json

import msgspec
import pytest

from homespec import status
from homespec.status import DraftState, EngineCounters, ModelMemory, Phase

RECORDS = [
    member
    for _, member in inspect.getmembers(status, inspect.isclass)
    if dataclasses.is_dataclass(member) and member.__module__.startswith(f"{status.__name__}.")
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_records_cannot_be_changed_once_they_are_out(record: type) -> None:
    # The counters are the engine's own tally while it counts.
    assert record.__dataclass_params__.frozen is (record is not EngineCounters)  # type: ignore[attr-defined]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_no_field_is_named_like_a_prompt_or_an_answer(record: type) -> None:
    for field in dataclasses.fields(record):
        assert field.name not in {"prompt", "content", "messages", "answer", "output", "token_ids", "text_so_far"}


def test_states_are_written_as_plain_words() -> None:
    assert json.dumps({"phase": Phase.READY, "drafter": DraftState.OFF}) == '{"phase": "ready", "drafter": "off"}'
    assert msgspec.to_builtins(DraftState.LOADING) == "loading"


def test_the_memory_of_a_model_is_the_sum_of_its_parts() -> None:
    assert ModelMemory(1, 20, 300).total_bytes == 321
    assert ModelMemory().total_bytes == 0


def test_memory_adds_up_by_kind_and_by_device() -> None:
    target = ModelMemory(3, 2, 1, {"CPU": ModelMemory(1, 1), "CUDA0": ModelMemory(2, 1, 1)})
    drafter = ModelMemory(5, by_device={"CUDA0": ModelMemory(5)})
    both = target + drafter
    assert (both.weights_bytes, both.kv_bytes, both.compute_bytes) == (8, 2, 1)
    assert both.by_device == {"CPU": ModelMemory(1, 1), "CUDA0": ModelMemory(7, 1, 1)}
    assert both.on("CPU").total_bytes + both.on("CUDA0").total_bytes == both.total_bytes
    assert both.on("nowhere") == ModelMemory()


def test_others_hold_what_is_neither_free_nor_ours() -> None:
    pool = status.PoolStatus("host", "", 100, 30, "", ModelMemory(20), ModelMemory(5), 10, 5, 10)
    assert pool.others_bytes == 45
    assert dataclasses.replace(pool, target=ModelMemory(80)).others_bytes == 0
    assert dataclasses.replace(pool, free_bytes=None).others_bytes is None
    assert dataclasses.replace(pool, residents_bytes=40).others_bytes == 5
