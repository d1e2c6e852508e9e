"""Runs a bench: warm-up, then the schedule, one request at a time. Trials are kept as they come."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from homespec.bench.costs import Costs, read_costs
from homespec.bench.measure import Asker, Endpoint, Sampler
from homespec.bench.patience import PromptFailed, PromptRefused
from homespec.bench.prompts import Prompt
from homespec.bench.schedule import schedule
from homespec.bench.server_name import named
from homespec.bench.trial import Failure, FailureKind, Trial
from homespec.client.failures import UnreachableError
from homespec.client.http import Client, decode_status
from homespec.errors import ExitCode, HomespecError
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
MAX_FAILED_SHARE = 0.2
"""Of the prompts: when more answers than that break off, those that remain are a selection."""

Tell = Callable[[str, int], None]
"""Takes what is being done, and how many trials are over."""


class CannotTell(HomespecError):
    """Too much is missing for a comparison."""

    exit_code = ExitCode.CANNOT_TELL


@dataclass(slots=True)
class Run:
    """Everything that was measured so far; complete when `ended_early` is None."""

    trials: list[Trial] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    num_answering: Counter[str] = field(default_factory=Counter)
    """Requests that began to be answered, per side, warm-up included."""
    unsettled: list[str] = field(default_factory=list)
    """What the daemon was still measuring when the bench began."""
    against_model: str | None = None
    """What the other server was asked for."""
    first_status: Status | None = None
    last_status: Status | None = None
    costs: Costs = field(default_factory=Costs)
    ended_early: str | None = None
    """Why some trials are missing."""
    ended_code: int | None = None
    """The exit code of that."""


class Runner:
    """One daemon, and perhaps one other server."""

    def __init__(self, daemon: Client, endpoints: Sequence[Endpoint], sampler: Sampler, tell: Tell, run: Run) -> None:
        self._daemon = daemon
        self._endpoints = endpoints
        self._sampler = sampler
        self._tell = tell
        self._run = run
        self._asker = Asker(self._count_tokens, run.num_answering)

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
                try:
                    await self._asker.ask(endpoint, prompt, sampler)
                except (PromptRefused, PromptFailed) as error:
                    raise HomespecError(f"{endpoint.client.url} does not answer the warm-up: {error}") from error

    async def measure(self, prompts: Sequence[Prompt], seed: int) -> None:
        """All trials, into the run. Raises HomespecError when a server is gone, and CannotTell when too many answers
        break off; a prompt that is refused is only noted.
        """
        for prompt, endpoints in schedule(prompts, self._endpoints, seed):
            for endpoint in endpoints:
                self._tell(f"{prompt.category}, {endpoint.side.name}", self._num_over)
                await self._try(endpoint, prompt)
            self._check_failed(len(prompts))
        self._tell("done", self._num_over)

    @property
    def _num_over(self) -> int:
        return len(self._run.trials) + len(self._run.failures)

    def _check_failed(self, num_prompts: int) -> None:
        failures = [each for each in self._run.failures if each.kind is FailureKind.FAILED]
        num_failed = len({each.question_id for each in failures})
        if num_failed > MAX_FAILED_SHARE * num_prompts:
            sides = ", ".join(dict.fromkeys(each.side for each in failures))
            raise CannotTell(
                f"{num_failed} of {num_prompts} prompts failed on {sides}, over the limit of {MAX_FAILED_SHARE:.0%}; "
                f"the last: {failures[-1].message}; see that server's log"
            )

    async def _try(self, endpoint: Endpoint, prompt: Prompt) -> None:
        name = endpoint.side.name
        try:
            trial = await self._asker.ask(endpoint, prompt, self._sampler)
        except PromptRefused as error:
            self._run.failures.append(Failure(prompt.question_id, name, FailureKind.REFUSED, str(error)))
            return
        except PromptFailed as error:
            self._run.failures.append(Failure(prompt.question_id, name, FailureKind.FAILED, str(error)))
            return
        status = await self._status()
        rss = status.memory.engine_rss_bytes if status.memory and endpoint.side.is_ours else None
        self._run.trials.append(replace(trial, engine_rss_bytes=rss))

    async def _settled(self) -> Status:
        """The daemon's status once its target answers and its own measurements are over. Raises HomespecError."""
        if (await self._status()).phase is Phase.IDLE:
            # Whatever it is asked has it load, which takes longer than an answer to this is waited for.
            with suppress(UnreachableError):
                await self._count_tokens("")
        await self._wait(lambda status: status.phase is Phase.READY, LOAD_TIMEOUT_S)
        status = await self._wait(lambda status: EXACTNESS_PENDING not in status.exactness_reason, EXACTNESS_TIMEOUT_S)
        if EXACTNESS_PENDING in status.exactness_reason:
            self._run.unsettled.append("its exactness")
        status = await self._wait(lambda _: not self._run.costs.pending, COSTS_TIMEOUT_S)
        if self._run.costs.pending:
            self._run.unsettled.append("its costs")
        return status

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
