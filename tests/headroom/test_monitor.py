"""The monitor over scripted readings: what it does to the engine, and what it tells."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from msgspec.structs import replace as replace_settings

from homespec.frames import Admit, EngineSettings
from homespec.headroom.marks import WantedMarks
from homespec.headroom.monitor import Monitor, Watching
from homespec.headroom.policy import Policy
from homespec.headroom.probe import Readings
from homespec.headroom.readings import Pool
from homespec.headroom.reconsider import SecondLook
from homespec.ledger import Ledger
from homespec.status import (
    Cause,
    DeviceMemory,
    DrafterStatus,
    DraftState,
    EngineCounters,
    EngineSnapshot,
    EngineStatus,
    ModelMemory,
    Phase,
    ResidentStatus,
    SpeculationStatus,
    Watch,
)
from homespec.units import MIB
from tests.kits.loops import settled

TARGET = ModelMemory(by_device={"CPU": ModelMemory(300 * MIB, 80 * MIB, 20 * MIB)}) + ModelMemory(
    300 * MIB, 80 * MIB, 20 * MIB
)
DRAFTER = ModelMemory(100 * MIB, by_device={"CPU": ModelMemory(100 * MIB)})
CARD = DeviceMemory("CUDA0", "NVIDIA", "0000:0a:00.0", False, 8000 * MIB, 4000 * MIB)


def snapshot(state: DraftState = DraftState.READY, *, devices: tuple[DeviceMemory, ...] = ()) -> EngineSnapshot:
    drafters = (DrafterStatus("draft", state, "", "d.gguf"), DrafterStatus("ngram", DraftState.READY, "free"))
    return EngineSnapshot(
        speculation=SpeculationStatus("auto", "ngram", DraftState.READY, "free", 4, drafters, {}),
        counters=EngineCounters(),
        requests=(),
        target_memory=TARGET,
        drafter_memory=DRAFTER if state is DraftState.READY else ModelMemory(),
        kv_used_tokens=0,
        kv_total_tokens=512,
        devices=devices,
    )


class FakeEngine:
    """Unloads and loads at once."""

    def __init__(self) -> None:
        self.phase = Phase.READY
        self.ledger = Ledger()
        self.done: list[str] = []
        self.given_up: list[str] = []
        self.doubts: list[str] = []
        self.loaded_beside: list[ResidentStatus] = []
        self.is_done = asyncio.Event()
        self.settings = EngineSettings("m.gguf", "m", draft_path="d.gguf")
        self.show(snapshot())

    def show(self, snapshot: EngineSnapshot) -> None:
        self.ledger.observe(snapshot, 0.0)

    def engine_status(self) -> EngineStatus:
        return EngineStatus(pid=1, restarts=0, last_exit=None, progress=0, progress_age_s=None)

    def residents(self) -> Sequence[ResidentStatus]:
        return self.loaded_beside

    def give_up_residents(self, reason: str) -> None:
        self.given_up.append(reason)

    def doubt_gpu(self, reason: str) -> None:
        self.doubts.append(reason)

    def withdraw(self, reason: str) -> None:
        self.done.append(reason)
        self.is_done.set()
        self.show(snapshot(DraftState.OFF))

    def readmit(self, reason: str) -> None:
        self.done.append(reason)
        self.show(snapshot())

    def admit(self, way: Admit, reason: str) -> None:
        self.settings = way.applied_to(self.settings)
        self.readmit(reason)


@dataclass
class FakeProbe:
    """Of a box with 4000 MiB."""

    free_mib: int | None = 1000
    fault: Exception | None = None
    asked: list[tuple[int, bool]] = field(default_factory=list)
    failures: int = 0
    gpu_doubt: str | None = ""
    failed_often: asyncio.Event = field(default_factory=asyncio.Event)

    def read(self, pid: int, devices: Sequence[DeviceMemory], *, maps_target: bool, now_s: float) -> Readings:
        if self.fault is not None:
            self.failures += 1
            if self.failures >= 3:
                self.failed_often.set()
            raise self.fault
        self.asked.append((pid, maps_target))
        free = None if self.free_mib is None else self.free_mib * MIB
        host = Pool("host", "main memory", 4000 * MIB, free, "test", ("CPU",))
        cards = [Pool(each.name, "", each.total_bytes, each.free_bytes, "NVML v2", (each.name,)) for each in devices]
        return Readings((host, *cards), 0.0, False, 0.0, 1.0, self.gpu_doubt)


class Box:
    def __init__(self, *, maps_target: bool = True) -> None:
        self.engine = FakeEngine()
        self.probe = FakeProbe()
        marks = WantedMarks(400 * MIB, 200 * MIB, 400 * MIB)
        how = Watching(
            self.probe,  # type: ignore[arg-type]
            Policy(30.0),
            marks,
            poll_s=0.001,
            maps_target=maps_target,
            reconsider=self._reconsider,
        )
        self.answers: list[SecondLook] = []
        self.how = how
        self.monitor = Monitor(self.engine, how)
        self.now_s = 0.0

    async def _reconsider(self, settings: EngineSettings, pid: int) -> SecondLook:
        return self.answers.pop(0)

    def look(self, free_mib: int | None, after_s: float = 1.0) -> Watch:
        self.probe.free_mib = free_mib
        self.now_s += after_s
        self.monitor.look(self.now_s)
        return self.monitor.status().watch


def test_a_whole_story() -> None:
    box = Box()
    assert box.look(1000) is Watch.ADMITTED
    assert box.monitor.status().reason == "host has 1000 MiB free, low mark 200.0 MiB"
    assert box.look(150) is Watch.WITHDRAWN
    assert box.engine.done == ["withdrawn: host has 150.0 MiB free, under the low mark of 200.0 MiB"]
    assert box.look(450) is Watch.WITHDRAWN
    assert box.monitor.status().reason.endswith(
        "; host has 350.0 MiB free beside the drafter's 100.0 MiB, under the high mark of 400.0 MiB"
    )
    assert box.look(900) is Watch.WITHDRAWN
    assert box.look(900, after_s=12) is Watch.WITHDRAWN
    assert box.monitor.status().reason.endswith("; calm for 12.0s of 30 s")
    assert box.look(900, after_s=18) is Watch.ADMITTED
    assert len(box.engine.done) == 2
    status = box.monitor.status()
    assert [each.cause for each in status.transitions] == [Cause.LOW_MEMORY, Cause.RECOVERED]
    assert [each.watch for each in status.transitions] == [Watch.WITHDRAWN, Watch.ADMITTED]
    assert status.counts == dict.fromkeys(Cause, 0) | {Cause.LOW_MEMORY: 1, Cause.RECOVERED: 1}


@pytest.mark.parametrize("state", [DraftState.OFF, DraftState.UNLOADING])
def test_without_a_drafter_there_is_nothing_to_withdraw(state: DraftState) -> None:
    box = Box()
    box.engine.show(snapshot(state))
    assert box.look(10) is Watch.IDLE
    assert box.engine.done == []
    box.engine.show(snapshot(DraftState.LOADING))
    assert box.look(10) is Watch.WITHDRAWN  # a load counts from its beginning


def test_what_was_read_of_one_target_is_not_told_of_the_next() -> None:
    box = Box()
    box.look(1000)
    assert box.monitor.status().resident_share == 1.0
    box.monitor.follow(box.how)
    assert box.monitor.status().resident_share is None


def test_what_the_driver_says_of_a_card_is_passed_on_and_silence_is_not() -> None:
    box = Box()
    for said in ("", "GPU is lost", None, ""):
        box.probe.gpu_doubt = said
        box.look(1000)
    assert box.engine.doubts == ["", "GPU is lost", ""]


@pytest.mark.parametrize("state", [DraftState.OFF, DraftState.READY])
def test_below_the_low_mark_models_that_do_not_answer_go_with_a_drafter_or_without(state: DraftState) -> None:
    box = Box()
    box.engine.show(snapshot(state))
    box.look(250)
    assert box.engine.given_up == []
    box.look(150)
    assert box.engine.given_up == ["host has 150.0 MiB free, under the low mark of 200.0 MiB"]


def test_asking_by_name_ends_the_hold_and_is_forgotten_afterwards() -> None:
    box = Box()
    box.monitor.ask()  # nothing is withdrawn
    box.look(150)
    assert box.look(900) is Watch.WITHDRAWN
    box.monitor.ask()
    assert box.look(450) is Watch.WITHDRAWN
    assert box.look(900) is Watch.ADMITTED
    assert box.monitor.status().counts[Cause.ASKED] == 1
    box.look(150)
    assert box.look(900) is Watch.WITHDRAWN


def test_nothing_is_judged_while_no_engine_is_ready() -> None:
    box = Box()
    box.engine.phase = Phase.RESTARTING
    assert box.look(10) is Watch.ADMITTED
    assert box.probe.asked == []
    box.engine.phase = Phase.READY
    box.engine.ledger.engine_gone()
    box.look(10)
    assert box.probe.asked == []


def test_pools_say_who_holds_what_and_where_the_marks_are() -> None:
    box = Box()
    box.engine.show(snapshot(devices=(CARD,)))
    box.look(1000)
    host, card = box.monitor.pools
    assert (host.target.total_bytes, host.drafter.total_bytes) == (400 * MIB, 100 * MIB)
    assert host.others_bytes == (4000 - 1000 - 400 - 100) * MIB
    assert (host.reserve_bytes, host.low_bytes, host.high_bytes) == (400 * MIB, 200 * MIB, 400 * MIB)
    assert (card.name, card.target.total_bytes, card.others_bytes) == ("CUDA0", 0, 4000 * MIB)
    box.look(None)
    assert box.monitor.pools[0].others_bytes is None


@pytest.mark.parametrize("maps_target", [True, False])
def test_what_residents_hold_is_theirs_and_mapped_weights_are_free(maps_target: bool) -> None:
    box = Box(maps_target=maps_target)
    box.engine.show(snapshot(devices=(CARD,)))
    parts = {"CPU": ModelMemory(1, 30 * MIB, 20 * MIB), "CUDA0": ModelMemory(500 * MIB, 60 * MIB)}
    memory = ModelMemory(500 * MIB + 1, 90 * MIB, 20 * MIB, parts)
    box.engine.loaded_beside = [ResidentStatus(name, os.getpid(), memory, 5.0) for name in ("a", "b")]
    box.look(1000)
    host, card = box.monitor.pools
    assert host.residents_bytes == 100 * MIB + (0 if maps_target else 2)  # this process has mapped more than a byte
    assert host.others_bytes == (4000 - 1000 - 400 - 100) * MIB - host.residents_bytes
    assert (card.residents_bytes, card.others_bytes) == (1120 * MIB, 2880 * MIB)


def test_the_file_matters_only_where_the_target_is_decoded_from_it() -> None:
    for maps_target, devices, expected in ((True, (), True), (True, (CARD,), False), (False, (), False)):
        box = Box(maps_target=maps_target)
        box.engine.show(snapshot(devices=devices))
        box.look(1000)
        assert box.probe.asked == [(1, expected)]


async def test_a_reading_that_fails_is_told_once_and_the_next_one_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    box = Box()
    box.probe.fault = ZeroDivisionError("odd kernel")
    running = asyncio.create_task(box.monitor.run())
    await box.probe.failed_often.wait()
    assert len(caplog.records) == 1
    box.probe.fault, box.probe.free_mib = None, 10
    await box.engine.is_done.wait()
    running.cancel()


def test_what_the_drafter_held_is_remembered_while_it_is_out() -> None:
    box = Box()
    box.look(1000)
    box.engine.show(replace(snapshot(), drafter_memory=ModelMemory()))
    box.look(150)
    assert "beside the drafter's 100.0 MiB" in (box.look(450), box.monitor.status().reason)[1]


async def test_a_drafter_that_was_refused_is_let_in_counted_and_then_watched_like_any_other() -> None:
    box = Box()
    box.engine.show(snapshot(DraftState.OFF))
    box.engine.settings = replace_settings(box.engine.settings, refused={"draft": "does not fit: 900 MiB needed"})
    assert box.look(450) is Watch.REFUSED
    assert box.monitor.status().reason.startswith("does not fit: 900 MiB needed; room for 0ms")
    box.answers.append(SecondLook(Admit(None, None, None), "fits in full on the CPU: 100.0 MiB"))
    assert box.look(450, after_s=30) is Watch.REFUSED
    await settled()
    [reason] = box.engine.done
    assert reason.startswith("admitted: host has 450.0 MiB free, high mark 400.0 MiB; calm for 30")
    assert reason.endswith("; fits in full on the CPU: 100.0 MiB")
    status = box.monitor.status()
    assert status.counts[Cause.FITS] == 1
    assert [(each.watch, each.cause) for each in status.transitions] == [(Watch.ADMITTED, Cause.FITS)]
    assert box.look(450) is Watch.ADMITTED
    assert box.look(150) is Watch.WITHDRAWN


async def test_a_refused_drafter_that_the_switch_does_not_want_is_not_asked_about() -> None:
    box = Box()
    off = snapshot(DraftState.OFF)
    box.engine.show(replace(off, speculation=replace(off.speculation, mode="ngram")))
    box.engine.settings = replace_settings(box.engine.settings, refused={"draft": "does not fit"})
    assert box.look(1000) is Watch.IDLE
    assert box.look(1000, after_s=100) is Watch.IDLE
    box.monitor.ask()
    box.engine.show(off)
    box.answers.append(SecondLook(Admit(None, None, None), "fits"))
    assert box.look(1000) is Watch.REFUSED
    await settled()
    assert box.monitor.status().counts[Cause.ASKED] == 1
