"""The daemon: binds the port, runs the supervisor and the HTTP server, and ends in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import uvicorn

from homespec.config import Settings
from homespec.errors import AddressInUse, ExitCode, ModelError
from homespec.frames import EngineSettings
from homespec.server.app import create_app
from homespec.status import Phase
from homespec.store.model_file import check, resolve
from homespec.supervisor import Supervisor
from homespec.units import one_line

logger = logging.getLogger("homespec.daemon")

DRAIN_TIMEOUT_S = 2.0
"""Time for streams to send their last event after a signal."""
_BACKLOG = 128


class _LineFormatter(logging.Formatter):
    """One line per record, whatever is in the names that it mentions; a traceback follows as it is."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: the daemon has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Daemon:
    """One `homespec serve`."""

    def __init__(self, settings: Settings) -> None:
        """Check everything that needs no engine. Raises ConfigError, ModelNotFound or ModelCorrupt."""
        self._settings = settings
        self.model_path = resolve(settings.model, demo=settings.demo)
        self.model_id = settings.model_id or self.model_path.stem
        self._sockets: list[socket.socket] = []
        self._ending = asyncio.Event()

    def bind(self) -> str:
        """Take the port, before anything is loaded; the URL to reach it at. Raises AddressInUse."""
        host, port = self._settings.host, self._settings.port
        if host is None:
            self._sockets = _bind_loopbacks(port)
        else:
            self._sockets = [_bind(host, port)]
        name = self._sockets[0].getsockname()
        shown = "127.0.0.1" if host is None else f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"http://{shown}:{name[1]}"

    async def run(self) -> None:
        """Serve until a signal. Raises ModelError or EngineError when there is nothing left to serve."""
        settings = self._settings
        supervisor = Supervisor(
            engine_settings(settings, self.model_path, self.model_id),
            max_queue=settings.max_queue,
            stall_timeout_s=settings.stall_timeout_s,
        )
        app = create_app(supervisor, settings, model_id=self.model_id, model_path=str(self.model_path))
        server = _HttpServer(
            uvicorn.Config(
                app,
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
            await asyncio.wait({serving, supervising, ending}, return_when=asyncio.FIRST_COMPLETED)
            await self._shutdown(supervisor, server, serving, supervising)
            ending.cancel()
        await supervising

    async def _shutdown(
        self,
        supervisor: Supervisor,
        server: uvicorn.Server,
        serving: asyncio.Task[None],
        supervising: asyncio.Task[None],
    ) -> None:
        """Streams get their last event, then connections close, then the engine ends; every step is bounded."""
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
        """First SIGINT or SIGTERM: end in order. Second: end at once."""
        loop = asyncio.get_running_loop()

        def handle(number: signal.Signals) -> None:
            if self._ending.is_set():
                supervisor.kill()
                os._exit(128 + number)
            logger.info("%s: shutting down; once more to force", number.name)
            self._ending.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, handle, number)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


def engine_settings(settings: Settings, model_path: Path, model_id: str) -> EngineSettings:
    """What the engine is told of the daemon's settings."""
    draft_path: str | None = None
    quarantined: dict[str, str] = {}
    if settings.draft not in ("auto", "off"):
        path = Path(settings.draft).expanduser().absolute()
        # Frames hold text: a name that is none goes escaped, and the reason with it.
        draft_path = str(path).encode(errors="backslashreplace").decode()
        try:
            check(path)
        except ModelError as error:
            quarantined["draft"] = one_line(str(error))
    return EngineSettings(
        model_path=str(model_path),
        model_id=model_id,
        draft_path=draft_path,
        quarantined=quarantined,
        drafter_mode="off" if settings.draft == "off" else "auto",
        max_draft_tokens=settings.max_draft_tokens,
        n_ctx=None if settings.ctx == "auto" else settings.ctx,
        slots=settings.slots,
        cached_prefixes=settings.cached_prefixes,
        threads=None if settings.threads == "auto" else settings.threads,
        n_gpu_layers=-1 if settings.gpu_layers == "auto" else settings.gpu_layers,
        kv_type=settings.kv_type,
        flash_attention=settings.flash_attention,
        mmap=settings.mmap,
        acceptance=settings.acceptance,
        exactness=settings.exactness,
        log_native=settings.log_level == "debug",
    )


def serve(settings: Settings) -> ExitCode:
    """Run a daemon in this process. Raises HomespecError."""
    _log_to_stderr(settings.log_level)
    daemon = Daemon(settings)
    url = daemon.bind()
    logger.info("serving %s on %s", daemon.model_path.name, url)
    print(_welcome(url, settings), file=sys.stderr, flush=True)
    asyncio.run(daemon.run())
    return ExitCode.OK


def _welcome(url: str, settings: Settings) -> str:
    flag = "" if settings.port == 8642 else f" --url {url}"
    key = ' -H "Authorization: Bearer $HOMESPEC_API_KEY"' if settings.api_keys() else ""
    body = '{"messages": [{"role": "user", "content": "Tell me a joke."}]}'
    return (
        f"\n  homespec is starting on {url}  (OpenAI base URL: {url}/v1)\n\n"
        f"  try it:   curl {url}/v1/chat/completions{key} \\\n"
        f"              -H 'Content-Type: application/json' -d '{body}'\n"
        f"  chat:     homespec chat{flag}\n"
        f"  watch:    homespec top{flag}\n"
        f"  stop:     Ctrl-C\n"
    )


def _log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("sse_starlette").setLevel(logging.WARNING)


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise AddressInUse(f"host {host!r} cannot be resolved: {error.strerror}; pass an address as --host") from error
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise AddressInUse(
            f"port {port} on {host} cannot be taken: {error.strerror}; stop what uses it or pass another --port"
        ) from error
    return sock


def _bind_loopbacks(port: int) -> list[socket.socket]:
    """127.0.0.1, and ::1 on the same port where the machine has IPv6: clients resolve localhost to either."""
    sockets = [_bind("127.0.0.1", port)]
    chosen = sockets[0].getsockname()[1]
    if socket.has_ipv6:
        try:
            sockets.append(_bind("::1", chosen))
        except AddressInUse as error:
            logger.info("IPv6 loopback is not served: %s", error)
    return sockets
