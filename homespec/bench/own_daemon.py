"""A daemon for one bench: `homespec serve` on a free port, ended with it."""

from __future__ import annotations

import asyncio
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO

from homespec.client.failures import UnreachableError
from homespec.client.http import Client
from homespec.errors import ExitCode, HomespecError

START_TIMEOUT_S = 60.0
"""Until the port is bound, which is before the model loads."""
STOP_TIMEOUT_S = 15.0
EXPLAIN_TIMEOUT_S = 2.0
_POLL_S = 0.1


class DaemonEnded(HomespecError):
    """It ended by itself; carries its exit code and its complaint."""

    def __init__(self, code: int, complaint: str) -> None:
        super().__init__(complaint)
        known = {int(each): each for each in ExitCode if each}
        self.exit_code = known.get(code, ExitCode.FAILURE)


class OwnDaemon:
    """A running `homespec serve`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, log: IO[bytes]) -> None:
        self._process = process
        self.url = url
        self._log = log

    @classmethod
    async def start(cls, arguments: Sequence[str], log: IO[bytes]) -> OwnDaemon:
        """Start it in a session of its own: Ctrl-C is for the bench, which then ends it."""
        port = _free_port()
        command = [sys.executable, "-P", "-m", "homespec", "serve", *arguments, "--port", str(port)]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        return cls(process, f"http://127.0.0.1:{port}", log)

    async def wait_bound(self) -> None:
        """Until it answers HTTP. Raises DaemonEnded, or HomespecError when it takes too long."""
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT_S
        while asyncio.get_running_loop().time() < deadline:
            self.check()
            with suppress(UnreachableError):
                await Client(self.url).check()
                return
            await asyncio.sleep(_POLL_S)
        raise HomespecError(f"the daemon did not answer within {START_TIMEOUT_S:g} s; start it by hand and pass --url")

    def check(self) -> None:
        """Raise DaemonEnded when it has ended."""
        if (code := self._process.returncode) is not None:
            raise DaemonEnded(code, self._complaint() or f"the daemon ended with exit code {code}")

    async def explain(self) -> None:
        """After a failure: raise DaemonEnded when the reason is that it ended, or is about to."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), EXPLAIN_TIMEOUT_S)
        self.check()

    async def stop(self) -> None:
        """End it in order, else at once."""
        with suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _complaint(self) -> str:
        """The last thing it said, without its name."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("homespec: ") if lines else ""


@asynccontextmanager
async def own_daemon(arguments: Sequence[str]) -> AsyncIterator[OwnDaemon]:
    """A daemon that answers HTTP, perhaps still loading; gone at the end. Raises DaemonEnded."""
    with tempfile.TemporaryFile() as log:
        daemon = await OwnDaemon.start(arguments, log)
        try:
            await daemon.wait_bound()
            yield daemon
        finally:
            await asyncio.shield(daemon.stop())


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
