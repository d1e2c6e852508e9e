"""The child that measures, seen from outside: one question, one answer, a deadline, and a fresh child after a death."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from contextlib import suppress
from types import TracebackType

import msgspec

from homespec.child import engine_environment
from homespec.errors import EngineError
from homespec.footprint import Answer, Question
from homespec.headroom.answers import Answers, key_of
from homespec.units import format_bytes, format_exit

DEADLINE_S = 30.0
"""A large vocabulary on a cold disk takes seconds; a hang takes for ever."""
_END_TIMEOUT_S = 5.0
_MAX_ANSWER_BYTES = 1024 * 1024
_COMMAND = (sys.executable, "-P", "-m", "homespec.engine.surveyor")


class Survey:
    """One child at a time. An async context manager: entering it starts the child, which then loads the library while
    the caller does other things. Where there are earlier answers, they may do without.
    """

    def __init__(
        self,
        answers: Answers | None = None,
        *,
        deadline_s: float = DEADLINE_S,
        command: tuple[str, ...] = _COMMAND,
    ) -> None:
        """`answers`: of earlier surveys, which are not asked for again; None: there are none yet."""
        self._answers = answers or Answers()
        self._deadline_s = deadline_s
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        self._decoder = msgspec.json.Decoder(Answer)

    async def __aenter__(self) -> Survey:
        if self._answers.is_empty:
            with suppress(EngineError):  # the first question finds out
                await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()
        self._complaints.close()

    async def ask(self, question: Question) -> Answer:
        """The child's answer, or its earlier one to the same. Raises EngineError with the reason when it dies, hangs or
        says something else.
        """
        key = await asyncio.to_thread(key_of, question)
        if (known := self._answers.find(key)) is not None:
            return known
        answer = await self._ask_child(question)
        self._answers.keep(key, answer)
        return answer

    async def _ask_child(self, question: Question) -> Answer:
        process = self._process or await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._deadline_s):
                process.stdin.write(msgspec.json.encode(question) + b"\n")
                with suppress(ConnectionError):
                    await process.stdin.drain()
                line = await process.stdout.readline()
        except TimeoutError:
            await self._end()
            raise EngineError(f"no answer within {self._deadline_s:g} s") from None
        except asyncio.CancelledError:
            await self._end()
            raise
        except ValueError as error:  # of readline: longer than its limit
            await self._end()
            raise EngineError(f"an answer of more than {format_bytes(_MAX_ANSWER_BYTES)} in one line") from error
        if not line:
            raise EngineError(await self._last_words())
        try:
            return self._decoder.decode(line)
        except msgspec.MsgspecError as error:
            await self._end()
            raise EngineError(f"an answer that does not decode: {error}") from error

    async def _start(self) -> asyncio.subprocess.Process:
        self._complaints.truncate(0)
        self._complaints.seek(0)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=self._complaints,
                start_new_session=True,
                env=engine_environment(os.environ),
                limit=_MAX_ANSWER_BYTES,
            )
        except OSError as error:
            raise EngineError(f"the child could not be started: {error.strerror}") from error
        return self._process

    async def _last_words(self) -> str:
        """How the child ended, and the last line that it wrote on the way."""
        assert self._process is not None
        if (code := await _code(self._process)) is None:
            await self._end()
            return "closed its output and did not end"
        self._process = None
        how = format_exit(code)
        self._complaints.seek(0)
        lines = [line for line in self._complaints.read().decode(errors="replace").splitlines() if line.strip()]
        return f"{how}: {lines[-1].strip()}" if lines else how

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.kill()
        await _code(process)


async def _code(process: asyncio.subprocess.Process) -> int | None:
    """Of a process that is about to end; None when it does not, because a driver holds it."""
    with suppress(TimeoutError):
        return await asyncio.wait_for(process.wait(), _END_TIMEOUT_S)
    return None
