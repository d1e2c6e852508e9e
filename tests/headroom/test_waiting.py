"""A refused drafter over scripted readings and a scripted gate: when it is asked, and what its answer leads to."""

from __future__ import annotations

import asyncio

import msgspec

from homespec.footprint import HOST, Footprint, Shares
from homespec.frames import Admit, EngineSettings
from homespec.headroom.marks import Marks
from homespec.headroom.policy import Change, Observation, Policy, PoolLevel
from homespec.headroom.reconsider import SecondLook
from homespec.headroom.waiting import MAX_FAILURES, Waiting
from homespec.status import Cause, ModelMemory
from homespec.units import MIB
from tests.kits.loops import settled

MARKS = Marks(reserve_bytes=400 * MIB, low_bytes=200 * MIB, high_bytes=400 * MIB)
POLICY = Policy(hold_s=30.0)
WAY = Admit(2048, "q8_0", 0)


def size(mib: int, device: str = HOST) -> Footprint:
    return Footprint({device: Shares(weights_bytes=mib * MIB)}, n_ctx=2048, kv_type="q8_0")


class Case:
    """A box with a host and a card, and a gate that gives its answers in turn."""

    def __init__(self, *answers: SecondLook) -> None:
        self.answers = list(answers)
        self.settings = EngineSettings("m.gguf", "m", draft_path="d.gguf", refused={"draft": "does not fit"})
        self.let_in: list[tuple[Admit, str]] = []
        self.changes: list[Change] = []
        self.asked_with: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = Waiting(self, self._reconsider, self.changes.append)
        self.now_s = 0.0
        self.pid = 1
        self.free = {HOST: 1000, "CUDA0": 1000}

    def admit(self, way: Admit, reason: str) -> None:
        self.settings = way.applied_to(self.settings)
        self.let_in.append((way, reason))

    async def _reconsider(self, settings: EngineSettings, pid: int) -> SecondLook:
        self.asked_with.append(pid)
        await self.gate.wait()
        return self.answers.pop(0)

    async def look(self, host: int, card: int = 1000, *, after_s: float = 1.0, asked: bool = False) -> str:
        """One reading; what it waits for afterwards."""
        self.free = {HOST: host, "CUDA0": card}
        self.now_s += after_s
        self.waiting.look(self._observe, POLICY, self.pid, self.now_s, asked=asked)
        await settled()
        return self.waiting.explain(self._observe, POLICY, self.now_s)

    def _observe(self, drafter: ModelMemory) -> Observation:
        known = drafter.total_bytes > 0
        levels = (
            PoolLevel(name, free * MIB, MARKS, drafter.on(name).total_bytes if known else None)
            for name, free in self.free.items()
        )
        return Observation(tuple(levels), is_loaded=False)


async def test_the_gate_is_asked_after_a_calm_above_the_high_mark_and_its_way_is_taken() -> None:
    case = Case(SecondLook(WAY, "fits on the CPU", (size(300),)))
    assert "CPU has 399.0 MiB free, under the high mark" in await case.look(399)
    await case.look(500)
    assert "room for 10.0s of 30 s" in await case.look(500, after_s=10)
    await case.look(399)  # a relapse
    await case.look(500)
    assert case.asked_with == []
    await case.look(500, after_s=30)
    assert case.let_in == [(WAY, case.changes[0].reason)]
    assert [change.cause for change in case.changes] == [Cause.FITS]
    assert case.changes[0].reason.endswith("; fits on the CPU")
    assert (case.settings.draft_n_ctx, case.settings.draft_kv_type, case.settings.refused) == (2048, "q8_0", {})


async def test_after_a_refusal_its_sizes_say_when_asking_is_worth_it() -> None:
    sizes = (size(900, "CUDA0"), size(300))
    case = Case(SecondLook(None, "900 MiB needed on CUDA0", sizes), SecondLook(WAY, "fits", sizes))
    await case.look(650)
    assert (await case.look(650, after_s=30)).startswith("900 MiB needed on CUDA0; CPU has 350.0 MiB free beside")
    for _ in range(100):
        await case.look(650, after_s=30)
    assert len(case.asked_with) == 1
    await case.look(650, card=1300)  # room for the first way
    await case.look(650, card=1300, after_s=30)
    assert len(case.asked_with) == 2
    assert case.let_in


async def test_what_memory_has_nothing_to_do_with_is_asked_once_unless_it_is_named() -> None:
    case = Case(SecondLook(None, "its header cannot be read"), SecondLook(WAY, "fits", (size(10),)))
    await case.look(1000)
    await case.look(1000, after_s=30)
    for _ in range(5):
        assert await case.look(1000, after_s=30) == "its header cannot be read"
    assert len(case.asked_with) == 1
    await case.look(1000, asked=True)
    assert case.let_in


async def test_a_gate_that_cannot_be_asked_is_tried_again_but_not_for_ever() -> None:
    busy = SecondLook(None, "it cannot be measured: no answer within 30 s", is_measured=False)
    case = Case(busy, SecondLook(WAY, "fits", (size(10),)))
    for _ in range(4):
        await case.look(1000, after_s=30)
    assert len(case.asked_with) == 2
    assert case.let_in
    case = Case(*[busy] * 10)
    for _ in range(50):
        await case.look(1000, after_s=30)
    assert len(case.asked_with) == MAX_FAILURES


async def test_naming_it_ends_the_hold_and_not_the_shortage() -> None:
    case = Case(SecondLook(WAY, "fits", (size(10),)))
    await case.look(300, asked=True)
    assert case.asked_with == []
    await case.look(500, asked=True)
    assert [change.cause for change in case.changes] == [Cause.ASKED]


async def test_once_named_it_comes_as_soon_as_it_fits() -> None:
    case = Case(SecondLook(None, "no room", (size(300),)), SecondLook(WAY, "fits", (size(300),)))
    await case.look(500, asked=True)
    await case.look(500, after_s=100)
    assert len(case.asked_with) == 1
    await case.look(800)
    assert [change.cause for change in case.changes] == [Cause.ASKED]


async def test_an_answer_that_comes_too_late_is_dropped() -> None:
    """The engine was started anew while the gate was busy: its memory is another's now."""
    case = Case(SecondLook(WAY, "fits", (size(10),)), SecondLook(WAY, "fits", (size(10),)))
    case.gate.clear()
    assert (await case.look(1000, asked=True)).endswith("the gate is asked again")
    await case.look(1000, after_s=100, asked=True)
    assert case.asked_with == [1]  # one question at a time
    case.pid = 2
    await case.look(1000)
    case.gate.set()
    await settled()
    assert case.let_in == []
    await case.look(1000)
    await case.look(1000, after_s=30)
    assert case.asked_with == [1, 2]
    assert case.let_in


async def test_other_settings_make_it_another_case() -> None:
    case = Case(SecondLook(None, "unreadable"), SecondLook(WAY, "fits", (size(10),)))
    await case.look(1000, asked=True)
    case.settings = msgspec.structs.replace(case.settings, draft_path="other.gguf")
    assert (await case.look(1000)).startswith("does not fit; room for")
    await case.look(1000, after_s=30)
    assert case.let_in


async def test_the_end_of_the_daemon_ends_the_question() -> None:
    case = Case()
    case.gate.clear()
    await case.look(1000, asked=True)
    case.waiting.close()
    await settled()
    assert case.let_in == []
