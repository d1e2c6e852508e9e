"""Threads are given up to other work and taken back, without flapping, and only where that cannot change a bit."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.crowd import GIVE_UP, TAKE_BACK, OthersMeter, ThreadCount, may_vary
from homespec.engine.llama.batch import Batch
from homespec.engine.llama.context import Context
from homespec.engine.llama.context_params import ContextParams
from homespec.engine.llama.model import Model
from homespec.frames import EngineSettings
from tests.kits.gguf_kit import Shape, byte_vocabulary, random_llama
from tests.kits.models import Models

SETTINGS = EngineSettings("m.gguf", "m")


def after(count: ThreadCount, others: float, looks: int) -> int:
    for _ in range(looks):
        count.update(others)
    return count.current


def test_one_busy_neighbour_of_two_cores_gets_one() -> None:
    count = ThreadCount(2, num_cpus=2)
    # Three threads that want two CPUs: each gets two thirds of one.
    assert after(count, 0.67, GIVE_UP - 1) == 2
    assert after(count, 0.67, 1) == 1
    assert after(count, 1.0, 100) == 1  # by itself on a core now
    assert after(count, 0.05, TAKE_BACK - 1) == 1
    assert after(count, 0.05, 1) == 2


def test_a_short_job_and_a_light_one_change_nothing() -> None:
    count = ThreadCount(2, num_cpus=2)
    for others in (1.5, 0.1, 1.5, 0.1, 0.4, 0.4, 0.4, 0.4):
        assert not count.update(others)


def test_cores_that_are_left_over_are_not_missed() -> None:
    assert after(ThreadCount(4, num_cpus=8), 3.9, 100) == 4
    assert after(ThreadCount(4, num_cpus=8), 6.0, 100) == 2


@given(st.integers(1, 16), st.integers(1, 32), st.lists(st.floats(0, 64), max_size=60))
def test_there_is_always_a_thread_and_never_more_than_asked_for(most: int, cpus: int, course: list[float]) -> None:
    count = ThreadCount(most, cpus)
    for others in course:
        count.update(others)
        assert 1 <= count.current <= most


@given(st.integers(2, 16), st.integers(2, 16), st.floats(0, 16))
def test_a_steady_load_ends_in_a_steady_number(most: int, cpus: int, others: float) -> None:
    count = ThreadCount(most, cpus)
    settled = after(count, others, 40)
    assert after(count, others, 40) == settled


def test_what_was_set_stays_and_so_does_what_could_move_a_bit() -> None:
    bf16 = ContextParams(512, 1, 1, n_threads=2, kv_type="bf16")
    assert may_vary(SETTINGS, bf16, on_cpu=True)
    assert not may_vary(EngineSettings("m.gguf", "m", threads=2), bf16, on_cpu=True)
    assert not may_vary(SETTINGS, bf16, on_cpu=False)
    assert not may_vary(SETTINGS, ContextParams(512, 1, 1, n_threads=1, kv_type="bf16"), on_cpu=True)
    for kv_type in ("f16", "f32"):
        assert not may_vary(SETTINGS, ContextParams(512, 1, 1, n_threads=2, kv_type=kv_type), on_cpu=True)


def test_the_meter_sees_others_and_not_this_process() -> None:
    meter = OthersMeter()
    assert meter.read(time.monotonic()) is None
    program = "import time; stop = time.process_time() + 0.3\nwhile time.process_time() < stop: pass"
    subprocess.run([sys.executable, "-c", program], check=True)
    others = meter.read(time.monotonic())
    assert others is not None
    assert 0 < others <= meter.num_cpus + 0.1  # the kernel counts in hundredths of a second


@pytest.mark.real
@pytest.mark.parametrize("kv_type", ["bf16", "q8_0"])
def test_the_number_of_threads_moves_no_bit(models: Models, kv_type: str) -> None:
    """It changes in the middle of a text that is longer than what attention takes in one piece."""
    shape = Shape(n_embd=128, n_layer=2, n_head=2, n_head_kv=1, n_ff=256)
    model = Model(models.write("wide-heads", random_llama(byte_vocabulary(), seed=5, shape=shape)))
    tokens = [int(token) for token in np.random.default_rng(1).integers(0, 256, 700)]

    def rows(sizes: tuple[int, ...]) -> np.ndarray:
        params = ContextParams(768, 1, 8, n_batch=256, n_threads=2, kv_type=kv_type, flash_attention="on")
        context = Context(model, params)
        batch, logits, position = Batch(256), [], 0
        for step, count in enumerate((256, 256, 100, 1, 1, 4, 1, 8, 1)):
            context.crew.size = sizes[step % len(sizes)]
            batch.clear()
            batch.add(tokens[position : position + count], position, 0, min(count, 8))
            context.decode(batch)
            logits.append(context.logits().copy())
            position += count
        context.close()
        return np.concatenate(logits).view(np.uint32)

    two = rows((2,))
    assert (rows((1,)) == two).all()
    assert (rows((2, 1)) == two).all()
    model.close()
