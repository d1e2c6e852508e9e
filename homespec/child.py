"""One engine process, seen from the daemon: start it, talk to it, end it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import msgspec

from homespec.errors import EngineError
from homespec.frames import EngineSettings, Frame, FromEngine, Start, Stop
from homespec.link import HEADER_BYTES, body_length, decode_from_engine, encode
from homespec.units import format_exit

STOP_TIMEOUT_S = 1.5
KILL_TIMEOUT_S = 10.0
"""Giving the memory of a large model back takes seconds."""
KILLED = "killed by SIGKILL"
"""How `format_exit` words what the out-of-memory killer does."""


def engine_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The engine's environment: what makes OpenMP and ggml behave at home, where the user has not said otherwise.

    GOMP_SPINCOUNT: threads that wait for each other spin for a bounded time. Without it a busy box slows decoding down
    many times over; with a passive wait policy an idle box loses speed. GGML_NO_BACKTRACE: an assertion must end the
    process, not start a debugger.
    """
    environment = dict(environ)
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "10000")
    environment.setdefault("GGML_NO_BACKTRACE", "1")
    return environment


class EngineChild:
    """A running engine. Its frames end when it does."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer

    @classmethod
    async def start(cls, settings: EngineSettings) -> EngineChild:
        """Start a process of its own session (Ctrl-C reaches the daemon only) and tell it what to load.

        Raises EngineError when the system has no process to give.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # the working directory must not be able to shadow modules
                    "-m",
                    "homespec.engine",
                    str(theirs.fileno()),
                    pass_fds=(theirs.fileno(),),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=2,
                    start_new_session=True,
                    env=engine_environment(os.environ),
                )
            except OSError as error:
                ours.close()
                raise EngineError(f"could not be started: {error.strerror}") from error
        reader, writer = await asyncio.open_connection(sock=ours)
        child = cls(process, reader, writer)
        child.send(Start(settings))
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, frame: Frame) -> None:
        """Queue a frame; one that the engine cannot take any more is dropped, the end of `frames` tells."""
        if not self._writer.is_closing():
            self._writer.write(encode(frame))

    async def frames(self) -> AsyncIterator[FromEngine]:
        """Everything the engine says, until it is gone. Raises EngineError when it breaks the protocol."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                header = await self._reader.readexactly(HEADER_BYTES)
                body = await self._reader.readexactly(body_length(header))
                try:
                    frame = decode_from_engine(body)
                except msgspec.MsgspecError as error:
                    raise EngineError(f"the engine sent a frame that does not decode: {error}") from error
                yield frame

    async def wait(self) -> str:
        """Reap the process; says how it ended."""
        code = await self._process.wait()
        self._writer.close()
        return format_exit(code)

    async def stop(self) -> str:
        """Ask it to end, then make it end. One that not even that ends is given up: a driver holds it."""
        self.send(Stop())
        with suppress(TimeoutError):
            return await asyncio.wait_for(self.wait(), STOP_TIMEOUT_S)
        self.kill()
        with suppress(TimeoutError):
            return await asyncio.wait_for(self.wait(), KILL_TIMEOUT_S)
        self._writer.close()  # ends the frames
        return f"has not ended {KILL_TIMEOUT_S:g} s after SIGKILL"

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
