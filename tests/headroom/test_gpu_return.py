"""When a GPU is looked for that the CPU stands in for: the decision, without one."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from homespec.headroom.gpu_return import LOOK_S, MOST_S, GpuReturn
from homespec.status import Phase


@dataclass
class Engine:
    phase: Phase = Phase.READY
    degraded: str | None = "on the CPU"
    lacks_gpu: bool = True
    could_return_to_gpu: bool = True
    devices: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def return_to_gpu(self, device: str) -> None:
        self.devices.append(device)

    def note(self, text: str) -> None:
        self.notes.append(text)


class Box:
    def __init__(self) -> None:
        self.engine = Engine()
        self.found: str | None = None
        self.num_looks = 0
        self.gpu = GpuReturn(self.engine, self._find)

    async def _find(self) -> str | None:
        self.num_looks += 1
        return self.found

    async def looks(self, now_s: float) -> bool:
        before = self.num_looks
        await self.gpu.look(now_s)
        return self.num_looks > before


async def test_it_is_looked_for_ever_more_rarely_and_not_given_up() -> None:
    box = Box()
    times = [now_s for now_s in range(0, 7200, int(LOOK_S)) if await box.looks(now_s)]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[:4] == [30, 60, 120, 240]
    assert set(pauses[5:]) == {MOST_S}
    assert box.engine.notes == []


async def test_the_users_word_has_it_looked_for_at_once_and_answered() -> None:
    box = Box()
    assert await box.looks(0)
    assert not await box.looks(1)
    box.gpu.look_now()
    assert await box.looks(2)
    assert "finds none" in box.engine.notes[0]
    box.found = "CUDA0"
    box.gpu.look_now()
    assert await box.looks(3)
    assert box.engine.devices == ["CUDA0"]


async def test_nobody_looks_while_something_runs_or_nothing_is_missed() -> None:
    box = Box()
    box.engine.could_return_to_gpu = False
    assert not await box.looks(0)
    box.engine.could_return_to_gpu = True
    assert await box.looks(1)
    box.engine.lacks_gpu = box.engine.could_return_to_gpu = False
    assert not await box.looks(2)
    box.engine.lacks_gpu = box.engine.could_return_to_gpu = True
    assert await box.looks(3)  # lost anew: not as rarely as the last time


async def test_an_engine_that_is_started_anew_in_vain_is_not_soon_started_again() -> None:
    box = Box()
    box.found = "CUDA0"
    assert await box.looks(0)
    box.engine.phase, box.engine.could_return_to_gpu = Phase.RESTARTING, False
    assert not await box.looks(31)
    box.engine.phase, box.engine.could_return_to_gpu = Phase.READY, True
    assert [now_s for now_s in range(31, 200) if await box.looks(now_s)] == [31, 91]


async def test_where_none_was_missed_there_is_nothing_to_tell() -> None:
    box = Box()
    box.engine.degraded = None
    box.gpu.look_now()
    assert await box.looks(0)
    assert box.engine.notes == []
