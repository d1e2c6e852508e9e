"""NVIDIA cards seen from the daemon: asks the NVML process, waits for nothing, wakes nobody."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from homespec import nvidia
from homespec.headroom.readings import CardReading
from homespec.steady import Steady

logger = logging.getLogger("homespec.headroom")

POLL_S = 0.5
DEADLINE_S = 5.0
"""For an answer. Most of it is for a process that starts on a busy box."""
RETRY_S = 30.0
"""Between attempts when NVML cannot be started or does not answer."""
_CLOSE_TIMEOUT_S = 0.5


class Cards:
    """Polls in a task of its own; `reading` returns the latest answer at once."""

    def __init__(
        self,
        *,
        sysfs: Path = Path("/sys"),
        environment: Mapping[str, str] = os.environ,
        deadline_s: float = DEADLINE_S,
        retry_s: float = RETRY_S,
    ) -> None:
        self._sysfs = sysfs
        self._environment = environment
        self._deadline_s = deadline_s
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._child: asyncio.subprocess.Process | None = None
        self._dying: list[asyncio.subprocess.Process] = []
        self._latest: dict[str, CardReading] = {}
        self._known: set[str] = set()
        """Cards that have been read."""
        self._lost: dict[str, asyncio.subprocess.Process] = {}
        """Those that are said to be lost, with the process that has said it first."""
        self._renew_at = 0.0
        self._steady = Steady(logger, "asking NVML")

    def reading(self, address: str) -> CardReading:
        return self._latest.get(address, CardReading.unknown("NVML has not answered yet"))

    async def run(self, addresses: Callable[[], Iterable[str]]) -> None:
        """Poll the cards that `addresses` names, until cancelled."""
        try:
            while True:
                with self._steady.turn():
                    await self.poll(list(addresses()))
                await asyncio.sleep(POLL_S)
        finally:
            await self.close()

    async def close(self) -> None:
        """End the NVML process, and wait a moment for it: one that a wedged driver holds ends when it can."""
        self._end_child()
        if self._dying:
            await asyncio.wait([asyncio.create_task(child.wait()) for child in self._dying], timeout=_CLOSE_TIMEOUT_S)

    async def poll(self, addresses: list[str]) -> None:
        """Ask once, for at most the deadline. A card that sleeps is left alone: asking would wake it."""
        asleep = [address for address in addresses if self._sleeps(address)]
        for address in asleep:
            self._latest[address] = CardReading.unknown(f"the card at {address} sleeps")
        awake = [address for address in addresses if address not in asleep]
        if not awake:
            self._end_child()  # an open library may keep a card from falling asleep
        elif time.monotonic() >= self._retry_at:
            try:
                answer = await asyncio.wait_for(self._ask(awake), self._deadline_s)
            except TimeoutError:
                answer = {"error": f"NVML has not answered within {self._deadline_s:g} s; the driver may hang"}
            except OSError as error:
                answer = {"error": f"the NVML process cannot be started: {error.strerror}"}
            self._take(answer, awake)

    def _take(self, answer: dict[str, object], addresses: list[str]) -> None:
        """Keep an answer; after a failure the child is of no use any more."""
        if isinstance(reason := answer.get("error"), str):
            self._latest.update(dict.fromkeys(addresses, CardReading.unknown(reason)))
            self._retry_at = time.monotonic() + self._retry_s
            self._end_child()
            return
        for address in addresses:
            fields = answer[address]
            assert isinstance(fields, dict)
            self._latest[address] = self._judge(address, CardReading(**fields))
        if self._lost and time.monotonic() >= self._renew_at:
            # What a process has of the driver may be out of date; a fresh one sees what there is.
            self._renew_at = time.monotonic() + self._retry_s
            self._end_child()

    def _judge(self, address: str, reading: CardReading) -> CardReading:
        """A card is lost that could be read before, and of which two processes say so."""
        assert self._child is not None
        if reading.total_bytes is not None:
            self._known.add(address)
        if not reading.is_lost or address not in self._known:
            self._lost.pop(address, None)
            return replace(reading, is_lost=False)
        first = self._lost.setdefault(address, self._child)
        return replace(reading, is_lost=first is not self._child)

    async def _ask(self, addresses: list[str]) -> dict[str, object]:
        child = self._child = self._child or await self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(ConnectionError):  # it may have ended already, with its reason in the pipe
            child.stdin.write(json.dumps(addresses).encode() + b"\n")
            await child.stdin.drain()
        line = await child.stdout.readline()
        if not line:
            return {"error": f"the NVML process ended with code {await child.wait()}"}
        with suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
        return {"error": f"the NVML process said {line!r}, which is no answer; something prints into its output"}

    async def _start(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *nvidia.COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            env=nvidia.environment(self._environment),
        )

    def _end_child(self) -> None:
        """Without waiting: a process inside a wedged driver cannot even be killed."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                self._child.kill()
            self._dying = [child for child in (*self._dying, self._child) if child.returncode is None]
            self._child = None

    def _sleeps(self, address: str) -> bool:
        """Runtime power management, as the kernel tells it without touching the card."""
        try:
            status = (self._sysfs / "bus/pci/devices" / address / "power/runtime_status").read_text().strip()
        except OSError:
            return False
        return status in ("suspended", "suspending")
