"""NVIDIA's binding and its process over a compiled stand-in for the driver's library."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from homespec.headroom.cards import Cards
from homespec.headroom.readings import CardReading
from homespec.units import GIB, MIB
from tests.kits.nvml import LIBRARY, build_driver

BIG, SMALL = "0000:0a:00.0", "0000:0b:00.0"
BIG_READING = CardReading(24 * GIB - 500 * MIB, 21 * GIB - 500 * MIB, "NVML v2")
SMALL_READING = CardReading(8 * GIB - 400 * MIB, 7 * GIB - 400 * MIB, "NVML v2")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_driver(tmp_path_factory.mktemp("nvml"))


@dataclass
class Box:
    """What the NVML process finds."""

    cards: Cards
    behaviour: Path

    def behave(self, words: str) -> None:
        self.behaviour.write_text(words)

    def sleep(self, address: str, status: str = "suspended") -> None:
        folder = self.behaviour.parent / "sys/bus/pci/devices" / address / "power"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "runtime_status").write_text(status + "\n")

    @staticmethod
    def children() -> list[int]:
        return [child.pid for child in psutil.Process().children() if _is_nvml(child)]

    async def ends_its_child(self) -> bool:
        """Killing is asked for, not waited for."""
        for _ in range(500):
            if not self.children():
                return True
            await asyncio.sleep(0.02)
        return False


def _is_nvml(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and "homespec.headroom.nvml" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


@asynccontextmanager
async def box(folder: Path, library: Path, words: str = "", **environment: str) -> AsyncIterator[Box]:
    behaviour = folder / "behaviour"
    behaviour.write_text(words)
    cards = Cards(
        sysfs=folder / "sys",
        environment={**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(behaviour), **environment},
        deadline_s=60 if "hang" not in words else 3,
        retry_s=0,
    )
    try:
        yield Box(cards, behaviour)
    finally:
        await cards.close()


async def test_cards_are_found_by_their_address_in_whatever_order_the_driver_has_them(
    tmp_path: Path, driver: Path
) -> None:
    """What the driver keeps for itself is part of nobody's total."""
    async with box(tmp_path, driver) as here:
        await here.cards.poll([BIG, SMALL])
        assert here.cards.reading(BIG) == BIG_READING
        assert here.cards.reading(SMALL) == SMALL_READING
        first = here.children()
        await here.cards.poll([SMALL])
        assert here.children() == first  # one process answers again and again


async def test_before_the_first_answer_nothing_is_known(tmp_path: Path, driver: Path) -> None:
    async with box(tmp_path, driver) as here:
        assert here.cards.reading(BIG) == CardReading.unknown("NVML has not answered yet")


async def test_an_old_driver_is_read_the_old_way(tmp_path: Path) -> None:
    async with box(tmp_path, build_driver(tmp_path, "-DNO_V2")) as here:
        await here.cards.poll([BIG])
        assert here.cards.reading(BIG) == CardReading(24 * GIB, 21 * GIB - 500 * MIB, "NVML v1")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (f"card={SMALL}:15", "lost"),
        (f"card={SMALL}:4", "Permission"),
        (f"card={SMALL}:6", "Not Found"),
        (f"card={SMALL}:999", "Unknown"),
    ],
)
async def test_a_card_with_a_fault_leaves_the_other_alone(
    tmp_path: Path, driver: Path, words: str, reason: str
) -> None:
    async with box(tmp_path, driver, words) as here:
        await here.cards.poll([BIG, SMALL])
        assert here.cards.reading(BIG) == BIG_READING
        lost = here.cards.reading(SMALL)
        assert (lost.total_bytes, lost.free_bytes, lost.is_supported) == (None, None, True)
        assert reason.lower() in lost.source.lower()


@pytest.mark.parametrize("code", [15, 6, 999])
async def test_a_card_is_lost_once_a_second_process_says_so(tmp_path: Path, driver: Path, code: int) -> None:
    async with box(tmp_path, driver) as here:
        await here.cards.poll([BIG, SMALL])
        here.behave(f"card={SMALL}:{code}")
        await here.cards.poll([BIG, SMALL])
        assert not here.cards.reading(SMALL).is_lost
        await here.cards.poll([BIG, SMALL])
        assert here.cards.reading(SMALL).is_lost
        assert here.cards.reading(BIG) == BIG_READING
        here.behave("")
        await here.cards.poll([BIG, SMALL])
        assert here.cards.reading(SMALL) == SMALL_READING


async def test_a_card_that_could_never_be_read_is_not_lost(tmp_path: Path, driver: Path) -> None:
    async with box(tmp_path, driver, f"card={SMALL}:999") as here:
        for _ in range(3):
            await here.cards.poll([SMALL])
            assert not here.cards.reading(SMALL).is_lost


@pytest.mark.parametrize(("words", "supported"), [("memory=3", False), ("memory=4", True), ("huge", True)])
async def test_what_is_not_known_is_none_and_not_zero(
    tmp_path: Path, driver: Path, words: str, supported: bool
) -> None:
    async with box(tmp_path, driver, words) as here:
        await here.cards.poll([BIG])
        reading = here.cards.reading(BIG)
        assert (reading.total_bytes, reading.free_bytes) == (None, None)
        assert reading.is_supported is supported


@pytest.mark.parametrize(("code", "reason"), [(18, "reboot, or reload the driver"), (9, "Driver Not Loaded")])
async def test_a_driver_that_cannot_be_started_is_tried_again(
    tmp_path: Path, driver: Path, code: int, reason: str
) -> None:
    """It may be loaded late, or reloaded after an update: a fresh process sees it."""
    async with box(tmp_path, driver, f"init={code}") as here:
        await here.cards.poll([BIG])
        assert reason in here.cards.reading(BIG).source
        assert here.cards.reading(BIG).total_bytes is None
        here.behave("")
        await here.cards.poll([BIG])
        assert here.cards.reading(BIG) == BIG_READING


async def test_without_a_library(tmp_path: Path) -> None:
    broken = tmp_path / "lib"
    broken.mkdir()
    (broken / LIBRARY).write_bytes(b"")  # hides a real one
    async with box(tmp_path, broken) as here:
        await here.cards.poll([BIG])
        assert "NVML cannot be started: NVML Shared Library Not Found" in here.cards.reading(BIG).source


async def test_a_hung_driver_is_given_up_and_told(tmp_path: Path, driver: Path) -> None:
    async with box(tmp_path, driver, "hang") as here:
        await here.cards.poll([BIG])
        reading = here.cards.reading(BIG)
        assert reading.total_bytes is None
        assert "has not answered within 3 s; the driver may hang" in reading.source


async def test_a_process_that_dies_is_told(tmp_path: Path, driver: Path) -> None:
    async with box(tmp_path, driver) as here:
        await here.cards.poll([BIG])
        [pid] = here.children()
        psutil.Process(pid).kill()
        await here.cards.poll([BIG])
        assert "the NVML process ended with code -9" in here.cards.reading(BIG).source
        await here.cards.poll([BIG])
        assert here.cards.reading(BIG) == BIG_READING


async def test_what_is_no_answer_is_told(tmp_path: Path, driver: Path) -> None:
    """A library that talks to stdout."""
    (tmp_path / "sitecustomize.py").write_text("print('WARNING: old driver', flush=True)\n")
    async with box(tmp_path, driver, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}") as here:
        await here.cards.poll([BIG])
        assert "said b'WARNING: old driver\\n', which is no answer" in here.cards.reading(BIG).source


async def test_another_package_of_the_same_name_is_named(tmp_path: Path, driver: Path) -> None:
    (tmp_path / "pynvml.py").write_text("class NVMLError(Exception): ...\n")
    async with box(tmp_path, driver, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}") as here:
        await here.cards.poll([BIG])
        assert f"module pynvml at {tmp_path / 'pynvml.py'} is not nvidia-ml-py" in here.cards.reading(BIG).source


async def test_a_sleeping_card_is_not_asked(tmp_path: Path, driver: Path) -> None:
    async with box(tmp_path, driver) as here:
        here.sleep(SMALL)
        await here.cards.poll([BIG, SMALL])
        assert here.cards.reading(BIG) == BIG_READING
        assert here.cards.reading(SMALL) == CardReading.unknown(f"the card at {SMALL} sleeps")
        here.sleep(BIG)
        await here.cards.poll([BIG, SMALL])
        assert await here.ends_its_child()  # nothing is held open that would keep a card awake
        here.sleep(BIG, "active")
        await here.cards.poll([BIG, SMALL])
        assert here.cards.reading(BIG) == BIG_READING
