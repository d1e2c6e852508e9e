"""`homespec bench`: checks, measures, reports. However it ends, what was measured is told and the daemon is gone."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from homespec.bench.measure import Endpoint, Sampler
from homespec.bench.options import STDOUT, Options
from homespec.bench.other_server import other_server
from homespec.bench.own_daemon import own_daemon
from homespec.bench.progress import progress
from homespec.bench.prompts import Prompt, load_prompts, select
from homespec.bench.report import Report
from homespec.bench.report_html import render_html
from homespec.bench.report_json import render_json
from homespec.bench.report_terminal import print_report
from homespec.bench.reporter import make_report
from homespec.bench.runner import Run, Runner, Tell
from homespec.bench.sides import Side, sides_of
from homespec.client.http import Client
from homespec.errors import HomespecError
from homespec.units import one_line

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bench(options: Options) -> int:
    """Run it; the exit code. Raises HomespecError when nothing could be measured."""
    options.check()
    found = load_prompts(options.prompts)
    prompts = select(found.prompts, options.categories, options.per_category)
    for note in found.notes:
        print(f"homespec: {one_line(note)}", file=sys.stderr)
    sides = sides_of(options.drafters, options.max_draft_tokens, options.sweep, against=options.against is not None)
    return asyncio.run(_Bench(options, prompts, sides, found.notes).run())


class _Bench:
    def __init__(
        self, options: Options, prompts: Sequence[Prompt], sides: Sequence[Side], notes: Sequence[str]
    ) -> None:
        self._options = options
        self._prompts = prompts
        self._sides = sides
        self._notes = notes
        self._measured = Run()
        self._url = Client(options.url).url
        self._signal: int | None = None

    async def run(self) -> int:
        started = time.time()
        with progress(len(self._prompts) * len(self._sides)) as tell:
            failure = await self._work(tell)
        if not self._measured.trials:
            return self._without_report(failure)
        if self._signal is not None:
            self._measured.ended_code = 128 + self._signal
        if failure is not None:
            print(f"homespec: {one_line(str(failure))}", file=sys.stderr)
        report = make_report(
            self._options, self._url, self._prompts, self._sides, self._measured, started, notes=self._notes
        )
        _write(report, self._options)
        return report.exit_code

    def _without_report(self, failure: HomespecError | None) -> int:
        """There is nothing to tell but why. Raises HomespecError unless a signal is the reason."""
        if failure is not None:
            raise failure
        if self._signal is not None:
            return 128 + self._signal
        refused = self._measured.failures[0]
        raise HomespecError(f"no prompt was answered; {refused.question_id} on {refused.side}: {refused.message}")

    async def _work(self, tell: Tell) -> HomespecError | None:
        """Measure until it is over, fails, or a signal comes; what failed."""
        work = asyncio.create_task(self._measure(tell))
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._interrupt, work, number)
        try:
            await asyncio.wait({work})
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
        if work.cancelled():
            self._measured.ended_early = "interrupted"
            return None
        failure = work.exception()
        if isinstance(failure, HomespecError):
            self._measured.ended_early = str(failure)
            self._measured.ended_code = int(failure.exit_code)
            return failure
        work.result()
        return None

    def _interrupt(self, work: asyncio.Task[None], number: signal.Signals) -> None:
        """The first signal ends the measuring; more of them change nothing, the end is near."""
        if self._signal is None:
            self._signal = int(number)
            work.cancel()

    async def _measure(self, tell: Tell) -> None:
        async with self._daemon(tell) as client:
            endpoints = await self._endpoints(client)
            options = self._options
            sampler = Sampler(options.max_tokens, options.temperature, options.seed)
            runner = Runner(client, endpoints, sampler, tell, self._measured)
            await runner.warm_up()
            await runner.measure(self._prompts, options.seed)

    @asynccontextmanager
    async def _daemon(self, tell: Tell) -> AsyncIterator[Client]:
        """The running one, or one of our own."""
        options = self._options
        if not options.serve:
            yield Client(self._url, options.api_key)
            return
        tell("starting the daemon", 0)
        async with own_daemon(options.serve) as daemon:
            self._url = daemon.url
            try:
                yield Client(daemon.url, options.api_key)
            except HomespecError:
                await daemon.explain()
                raise

    async def _endpoints(self, client: Client) -> list[Endpoint]:
        run_id = secrets.token_hex(8)
        endpoints = [Endpoint.of_daemon(side, client, run_id) for side in self._sides if side.is_ours]
        for side in self._sides:
            if not side.is_ours:
                endpoints.append(other := await other_server(side, self._options, run_id))
                self._measured.against_model = other.fields.get("model")
        return endpoints


def _write(report: Report, options: Options) -> None:
    if options.json == STDOUT:
        print(render_json(report))
    else:
        print_report(report, sys.stdout)
    if options.json not in (None, STDOUT):
        _save(Path(str(options.json)), render_json(report) + "\n")
    if options.html is not None:
        _save(options.html, render_html(report))


def _save(path: Path, text: str) -> None:
    """Raises HomespecError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:  # of a full disk it does not name the file
        raise HomespecError(f"{path} cannot be written: {error.strerror}") from error
