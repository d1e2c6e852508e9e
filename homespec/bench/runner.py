"""Runs a bench: warm-up, then the schedule, one request at a time. Trials are kept as they come."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from homespec.bench.costs import Costs, read_costs
from homespec.bench.measure import Endpoint, Sampler, ask, named
from homespec.bench.prompts import Prompt
from homespec.bench.schedule import schedule
from homespec.bench.trial import Failure, Trial
from homespec.client.http import Client, decode_status
from homespec.errors import HomespecError, RequestError
from homespec.status import EXACTNESS_PENDING, Phase, Status

WARM_UP = (
    Prompt("warm-up-1", "warm-up", ("Name three rivers and say where each of them ends.",)),
    Prompt("warm-up-2", "warm-up", ("Write a for loop in C that adds the numbers of an array.",)),
)
"""In no set of prompts: a warm side has answered before, but not this."""
WARM_UP_TOKENS = 32
POLL_S = 0.25
LOAD_TIMEOUT_S = 600.0
EXACTNESS_TIMEOUT_S, COSTS_TIMEOUT_S = 120.0, 30.0
"""A daemon that just started measures itself while it is idle; what it may never come to is not waited for."""

Tell = Callable[[str, int], None]
"""Takes what is being done, and how many trials are over."""


@dataclass(slots=True)
class Run:
    """Everything that was measured so far; complete when `ended_early` is None."""

    trials: list[Trial] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    first_status: Status | None = None
    last_status: Status | None = None
    costs: Costs = field(default_factory=Costs)
    ended_early: str | None = None
    """Why some trials are missing."""


class Runner:
    """One daemon, and perhaps one other server."""

    def __init__(self, daemon: Client, endpoints: Sequence[Endpoint], sampler: Sampler, tell: Tell, run: Run) -> None:
        self._daemon = daemon
        self._endpoints = endpoints
        self._sampler = sampler
        self._tell = tell
        self._run = run

    async def warm_up(self) -> None:
        """Wait until the daemon has nothing of its own to do, and ask something on every side. Raises HomespecError:
        a side that cannot answer at all ends the bench before it begins.
        """
        self._tell("waiting for the daemon", 0)
        self._run.first_status = await self._settled()
        sampler = replace(self._sampler, max_tokens=min(WARM_UP_TOKENS, self._sampler.max_tokens))
        for prompt in WARM_UP:
            for endpoint in self._endpoints:
                self._tell(f"warm-up, {endpoint.side.name}", 0)
                await ask(endpoint, prompt, sampler, self._count_tokens)

    async def measure(self, prompts: Sequence[Prompt], seed: int) -> None:
        """All trials, into the run. Raises HomespecError when a server is gone; one refused prompt is only noted."""
        for prompt, endpoints in schedule(prompts, self._endpoints, seed):
            for endpoint in endpoints:
                self._tell(f"{prompt.category}, {endpoint.side.name}", len(self._run.trials))
                await self._try(endpoint, prompt)
        self._tell("done", len(self._run.trials))

    async def _try(self, endpoint: Endpoint, prompt: Prompt) -> None:
        try:
            trial = await ask(endpoint, prompt, self._sampler, self._count_tokens)
        except RequestError as error:
            if error.info.status != 400:
                raise
            self._run.failures.append(Failure(prompt.question_id, endpoint.side.name, str(error)))
            return
        status = await self._status()
        rss = status.memory.engine_rss_bytes if status.memory and endpoint.side.is_ours else None
        self._run.trials.append(replace(trial, engine_rss_bytes=rss))

    async def _settled(self) -> Status:
        """The daemon's status once its target answers and its own measurements are over. Raises HomespecError."""
        if (await self._status()).phase is Phase.IDLE:
            await self._count_tokens("")  # whatever it is asked has it load
        await self._wait(lambda status: status.phase is Phase.READY, LOAD_TIMEOUT_S)
        await self._wait(lambda status: EXACTNESS_PENDING not in status.exactness_reason, EXACTNESS_TIMEOUT_S)
        return await self._wait(lambda _: not self._run.costs.pending, COSTS_TIMEOUT_S)

    async def _wait(self, is_over: Callable[[Status], bool], timeout_s: float) -> Status:
        deadline = time.monotonic() + timeout_s
        while True:
            status = await self._status()
            if status.phase in (Phase.FAILED, Phase.STOPPING):
                raise HomespecError(f"the daemon is {status.phase}: {status.detail}; see its log")
            if is_over(status):
                return status
            if time.monotonic() > deadline:
                if status.phase is Phase.READY:
                    return status
                raise HomespecError(f"the daemon is not ready after {timeout_s:g} s: {status.detail}")
            await asyncio.sleep(POLL_S)

    async def _status(self) -> Status:
        with named(self._daemon):
            body = await self._daemon.status_json()
            status = self._run.last_status = decode_status(body)
        self._run.costs = read_costs(body)
        return status

    async def _count_tokens(self, text: str) -> int:
        with named(self._daemon):
            return await self._daemon.count_tokens(text)
