"""Whether a GPU that is not there is waited for, and what then: the decision, without one."""

from __future__ import annotations

from typing import Literal

import pytest

from homespec.errors import GpuMissing
from homespec.frames import EngineSettings
from homespec.supervision.gpu_wait import GpuWait, MissingGpu
from homespec.supervision.plan import Plan
from homespec.supervision.state import State

ERROR = GpuMissing("llama.cpp finds none")


class Box:
    def __init__(self, n_gpu_layers: int) -> None:
        self.state = State()
        self.pauses: list[float] = []
        self.plan = Plan(EngineSettings("m.gguf", "m", n_gpu_layers=n_gpu_layers))
        self.wait = GpuWait(self.state, self._pause)

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    async def is_worth_a_try(self, wait_s: float, then: Literal["fail", "cpu"]) -> bool:
        return await self.wait.is_worth_a_try(self.plan, ERROR, MissingGpu(wait_s, then))


@pytest.mark.parametrize("n_gpu_layers", [-1, 5])
async def test_while_there_is_time_it_is_looked_for_again_and_told_once(n_gpu_layers: int) -> None:
    box = Box(n_gpu_layers)
    for _ in range(3):
        assert await box.is_worth_a_try(1e6, "fail")
    assert box.pauses == [2, 2, 2]
    assert box.plan.degraded is None
    assert box.wait.reason == "llama.cpp finds none"
    assert "waiting for it for 1" in box.state.detail
    assert len(box.state.events) == 1
    box.wait.over()
    assert box.wait.reason is None


@pytest.mark.parametrize(
    ("n_gpu_layers", "then", "goes_on"), [(5, "fail", False), (5, "cpu", True), (-1, "fail", True)]
)
async def test_after_that_only_who_has_asked_for_layers_and_not_for_the_cpu_gets_an_error(
    n_gpu_layers: int, then: Literal["fail", "cpu"], goes_on: bool
) -> None:
    box = Box(n_gpu_layers)
    assert await box.is_worth_a_try(0, then) is goes_on
    assert box.pauses == []
    if not goes_on:
        assert box.plan.degraded is None
        return
    assert box.plan.settings.n_gpu_layers == 0
    assert box.plan.degraded is not None
    assert "on the CPU: llama.cpp finds none" in box.plan.degraded
    assert "it is looked for again while nothing runs" in box.plan.degraded
    assert "degraded" in box.state.events[-1].text


async def test_one_that_was_waited_for_in_vain_is_not_waited_for_again() -> None:
    box = Box(-1)
    await box.is_worth_a_try(0, "cpu")
    box.plan.want_gpu()
    assert (box.plan.degraded, box.plan.settings.n_gpu_layers) == (None, -1)
    assert await box.is_worth_a_try(1e6, "cpu")
    assert box.pauses == []
    assert box.plan.degraded is not None
    box.wait.ready("CPU")
    assert box.wait.is_given_up
    box.wait.ready("CUDA0")
    assert await box.is_worth_a_try(1e6, "cpu")
    assert box.pauses == [2]


@pytest.mark.parametrize(
    ("n_gpu_layers", "devices", "expected", "missed"),
    [
        (5, (), False, True),
        (5, ("CUDA0",), False, False),
        (-1, (), False, False),
        (-1, (), True, True),
        (-1, ("CUDA0",), True, False),
        (0, (), True, False),
    ],
)
def test_a_gpu_is_missed_where_layers_ask_for_it_or_one_has_been_in_use(
    n_gpu_layers: int, devices: tuple[str, ...], expected: bool, missed: bool
) -> None:
    if not missed:
        GpuMissing.check(n_gpu_layers, devices, expected=expected)
        return
    with pytest.raises(GpuMissing, match=r"finds none.*; 'homespec doctor' looks at the driver"):
        GpuMissing.check(n_gpu_layers, devices, expected=expected)
