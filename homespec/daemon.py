"""The daemon: binds the port, runs the supervisor and the HTTP server, and ends in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from homespec.config import Settings
from homespec.errors import EngineError, ExitCode, HomespecError
from homespec.headroom.answers import Answers
from homespec.headroom.cards import Cards
from homespec.headroom.gpu_return import GpuReturn, find_gpu
from homespec.headroom.marks import WantedMarks
from homespec.headroom.monitor import Monitor, Watching
from homespec.headroom.planner import fit
from homespec.headroom.policy import Policy
from homespec.headroom.probe import Probe, card_addresses
from homespec.headroom.reconsider import reconsider
from homespec.offers import Offers
from homespec.program import program
from homespec.server.app import create_app
from homespec.server.connection import Connection
from homespec.server.open_files import Shortage, raise_limit
from homespec.service.announce import Announcer
from homespec.service.changes import describe, following
from homespec.service.listening import BACKLOG, listen
from homespec.service.log import log_to_stderr
from homespec.service.notify import Notifier
from homespec.status import Phase
from homespec.supervision.limits import Limits
from homespec.supervision.plan import Fit
from homespec.supervisor import Supervisor

logger = logging.getLogger("homespec.daemon")

DRAIN_TIMEOUT_S = 2.0
"""Time for streams to send their last event after a signal."""


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Daemon:
    """One `homespec serve`."""

    def __init__(self, settings: Settings, reread: Callable[[], Settings], notifier: Notifier) -> None:
        """Check everything that needs no engine; `reread` makes the settings anew from where they came.

        Raises ConfigError, ModelNotFound or ModelCorrupt.
        """
        self._reread = reread
        self._answers = Answers()
        self._settings, self._offers = settings, Offers(settings, self._fit)
        self._supervisor = Supervisor(self._offers.plan(self._offers.default), Limits.of(settings))
        self._cards = Cards()
        self._monitor = Monitor(self._supervisor, self._watching())
        self._supervisor.on_ready(lambda _: self._monitor.follow(self._watching()))
        self._gpu_return = GpuReturn(self._supervisor, partial(find_gpu, self._answers))
        self._notifier = notifier
        self._announcer = Announcer(notifier, self._supervisor)
        self._app = self._create_app()
        self._sockets: list[socket.socket] = []
        self._ending = asyncio.Event()
        self._hung_up = asyncio.Event()

    def bind(self) -> str:
        """Take the port, before anything is loaded; the URL to reach it at. Raises AddressInUse."""
        host = self._settings.host
        self._sockets = listen(host, self._settings.port, early=self._notifier.enabled)
        name = self._sockets[0].getsockname()
        shown = "127.0.0.1" if host is None else f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"http://{shown}:{name[1]}"

    async def run(self) -> None:
        """Serve until a signal. Raises ModelError or EngineError when there is nothing left to serve."""
        asyncio.get_running_loop().set_exception_handler(Shortage())
        supervisor = self._supervisor
        server = _HttpServer(
            uvicorn.Config(
                self._serve_http,
                interface="asgi3",
                http=Connection,
                ws="none",
                backlog=BACKLOG,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=int(DRAIN_TIMEOUT_S),
            )
        )
        with self._signals(supervisor):
            serving = asyncio.create_task(server.serve(sockets=self._sockets))
            supervising = asyncio.create_task(supervisor.run())
            ending = asyncio.create_task(self._ending.wait())
            watching = asyncio.create_task(self._monitor.run())
            polling = asyncio.create_task(self._cards.run(lambda: _card_addresses(supervisor)))
            helpers = [asyncio.create_task(self._reload_when_told()), asyncio.create_task(self._gpu_return.run())]
            if self._notifier.enabled:
                helpers.append(asyncio.create_task(self._announcer.run()))
            done, _ = await asyncio.wait({serving, supervising, ending, *helpers}, return_when=asyncio.FIRST_COMPLETED)
            watching.cancel()
            await self._shutdown(supervisor, server, serving, supervising)
            for task in (ending, polling, *helpers):
                task.cancel()
        # What cannot be ended, because a driver holds it, is not waited for.
        for task in (*done, *({supervising} if supervising.done() else ())):
            await task

    @property
    def model_path(self) -> Path:
        return self._offers.default.path

    def _create_app(self) -> FastAPI:
        return create_app(self._supervisor, self._monitor, self._settings, self._offers)

    def _fit(self, settings: Settings) -> Fit | None:
        return partial(fit, marks=WantedMarks.of(settings), answers=self._answers) if settings.fit == "auto" else None

    def _watching(self) -> Watching:
        settings = self._settings
        return Watching(
            Probe(Path(self._supervisor.plan.asked.model_path), self._cards),
            Policy(settings.pressure_hold_s),
            WantedMarks.of(settings),
            poll_s=settings.pressure_poll_s,
            maps_target=settings.mmap,
            reconsider=partial(reconsider, marks=WantedMarks.of(settings), answers=self._answers),
        )

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A new configuration brings a new application; requests that run end in the one they began in."""
        await self._app(scope, receive, send)

    async def _reload_when_told(self) -> None:
        while True:
            await self._hung_up.wait()
            self._hung_up.clear()
            self._announcer.reloading()
            try:
                self._supervisor.note(await self._reload())
            except HomespecError as error:
                self._supervisor.note(f"the new configuration is not taken: {error}")
            self._announcer.reloaded()
            self._gpu_return.look_now()

    async def _reload(self) -> str:
        """Read the settings again and follow them; what was done. Raises HomespecError and leaves all as it was."""
        old, old_offers = self._settings, self._offers
        wanted = await asyncio.to_thread(self._reread)  # a profile is chosen by what the driver says, perhaps late
        settings = following(old, wanted)
        offers = await asyncio.to_thread(Offers, settings, self._fit)
        await asyncio.to_thread(offers.take_over, old_offers)
        self._settings, self._offers = settings, offers
        try:
            app = self._create_app()
            restarts = await self._follow(old_offers, offers)
        except HomespecError:
            self._settings, self._offers = old, old_offers
            raise
        self._supervisor.set_limits(Limits.of(settings))
        self._monitor.follow(self._watching())
        logging.getLogger().setLevel(settings.log_level.upper())
        self._app = app
        return describe(old, wanted, engine_restarts=restarts)

    async def _follow(self, old: Offers, new: Offers) -> bool:
        """Have the engine serve what is offered now; whether it starts anew for that. Raises EngineError when the new
        target does not load.
        """
        supervisor, home = self._supervisor, new.plan(new.default)
        plan = supervisor.plan
        if plan is old.plan(old.default):
            wanted = home
        else:
            offer = await asyncio.to_thread(new.find, plan.model_id)
            wanted = (offer and new.plan_made(offer)) or home
        if restarts := wanted is not plan:
            reason = await supervisor.restart(wanted)
            if reason is not None:
                raise EngineError(reason)
        supervisor.set_home(home)
        return restarts

    async def _shutdown(
        self,
        supervisor: Supervisor,
        server: uvicorn.Server,
        serving: asyncio.Task[None],
        supervising: asyncio.Task[None],
    ) -> None:
        """Streams get their last event, then connections close, then the engine ends; every step is bounded."""
        self._announcer.stopping()
        if supervisor.phase is not Phase.FAILED:
            stopping = asyncio.create_task(supervisor.stop())
        else:
            stopping = None
            supervisor.stopping.set()
        server.should_exit = True
        with suppress(TimeoutError):
            await asyncio.wait_for(serving, DRAIN_TIMEOUT_S + 1)
        if stopping is not None:
            await stopping
        await asyncio.wait({supervising}, timeout=1)

    @contextmanager
    def _signals(self, supervisor: Supervisor) -> Iterator[None]:
        """First SIGINT or SIGTERM: end in order. Second: end at once. SIGHUP: read the configuration again; from a
        terminal it means that the terminal is gone, so it ends the daemon.
        """
        loop = asyncio.get_running_loop()

        def handle(number: signal.Signals) -> None:
            if self._ending.is_set():
                supervisor.kill()
                os._exit(128 + number)
            logger.info("%s: shutting down; once more to force", number.name)
            self._ending.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, handle, number)
        if _has_terminal():
            loop.add_signal_handler(signal.SIGHUP, handle, signal.SIGHUP)
        else:
            loop.add_signal_handler(signal.SIGHUP, self._hung_up.set)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)


def _card_addresses(supervisor: Supervisor) -> list[str]:
    snapshot = supervisor.ledger.snapshot
    return card_addresses(snapshot.devices) if snapshot else []


def serve(settings: Settings, reread: Callable[[], Settings]) -> ExitCode:
    """Run a daemon in this process. Raises HomespecError."""
    log_to_stderr(settings.log_level)
    raise_limit()
    daemon = Daemon(settings, reread, Notifier.from_environment(os.environ))
    url = daemon.bind()
    logger.info("serving %s on %s", daemon.model_path.name, url)
    with suppress(OSError):  # a log that has no room is no reason not to answer
        print(_welcome(url, settings), file=sys.stderr, flush=True)
    asyncio.run(daemon.run())
    return ExitCode.OK


def _has_terminal() -> bool:
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        return True
    return False


def _welcome(url: str, settings: Settings) -> str:
    flag = "" if settings.port == 8642 else f" --url {url}"
    key = ' -H "Authorization: Bearer $HOMESPEC_API_KEY"' if settings.api_keys() else ""
    body = '{"messages": [{"role": "user", "content": "Tell me a joke."}]}'
    return (
        f"\n  homespec is starting on {url}  (OpenAI base URL: {url}/v1)\n\n"
        f"  try it:   curl {url}/v1/chat/completions{key} \\\n"
        f"              -H 'Content-Type: application/json' -d '{body}'\n"
        f"  chat:     {program()} chat{flag}\n"
        f"  watch:    {program()} top{flag}\n"
        f"  stop:     Ctrl-C\n"
    )
