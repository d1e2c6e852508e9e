"""The chat loop: read a line, stream the answer, print its numbers."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing

from homespec.client.answer import Answer
from homespec.client.failures import StreamCutError, UnreachableError, describe, nobody_at
from homespec.client.http import Client
from homespec.errors import ExitCode, HomespecError
from homespec.tui.chat.commands import ChatState, obey
from homespec.tui.chat.console import Console
from homespec.tui.chat.conversation import Conversation
from homespec.tui.chat.report import ChatTotals, answer_line
from homespec.tui.chat.settings import Settings


class Session:
    """One chat. A person gets a prompt and commands; a pipe gets an answer per line, and every line is a message."""

    def __init__(self, client: Client, console: Console, settings: Settings) -> None:
        self._client = client
        self._console = console
        self._state = ChatState(settings, Conversation(), ChatTotals())

    def run(self) -> ExitCode:
        """Until the input ends; the first failure of a piped chat is its exit code."""
        try:
            return self._talk() if self._console.interactive else self._pipe()
        except KeyboardInterrupt:
            if not self._console.interactive:
                return ExitCode.FAILURE
            self._console.note("")
            return ExitCode.OK

    def _talk(self) -> ExitCode:
        try:
            asyncio.run(self._client.check())
        except HomespecError as error:
            self._console.error(self._text_of(error))
            return error.exit_code
        self._console.note(f"chat with {self._client.url}; /help lists the commands")
        while not self._state.leaving and (line := self._console.read()) is not None:
            if line.startswith("/"):
                if told := obey(line, self._state):
                    self._console.note(told)
            elif line.strip():
                self._answer(line)
        return ExitCode.OK

    def _pipe(self) -> ExitCode:
        outcome = ExitCode.OK
        while (line := self._console.read()) is not None:
            failure = self._answer(line) if line.strip() else None
            if failure is not None:
                outcome = outcome or failure.exit_code
            if isinstance(failure, UnreachableError):
                break
        return outcome

    def _answer(self, question: str) -> HomespecError | None:
        """Ask, and show the answer as it comes; a failure is shown and returned."""
        conversation, answer = self._state.conversation, Answer()
        conversation.ask(question)
        failure: HomespecError | None = None
        try:
            asyncio.run(self._stream(answer))
        except HomespecError as error:
            failure = error
        except KeyboardInterrupt:
            if not self._console.interactive:
                raise
            answer.cancelled = True
        self._end_line(answer.content)
        if failure is not None or not answer.content:
            conversation.take_back()
        else:
            conversation.answer(answer.content)
        self._tell(answer, failure)
        return failure

    async def _stream(self, answer: Answer) -> None:
        body = self._state.conversation.body(self._state.settings)
        async with aclosing(self._client.chat(body)) as chunks:
            async for data in chunks:
                text = answer.add(data)
                if answer.is_thinking:
                    self._console.think(text)
                else:
                    self._console.write(text)

    def _end_line(self, text: str) -> None:
        self._console.end_thinking()
        if text and not text.endswith("\n"):
            self._console.write("\n")

    def _tell(self, answer: Answer, failure: HomespecError | None) -> None:
        if failure is not None:
            self._console.error(self._text_of(failure))
        elif numbers := answer_line(answer):
            self._state.totals.add(answer)
            self._console.note(numbers)

    def _text_of(self, error: HomespecError) -> str:
        if isinstance(error, UnreachableError):
            return nobody_at(self._client.url, error)
        if isinstance(error, StreamCutError):
            return f"the answer broke off: {error}"
        return describe(error)


def run(url: str, api_key: str | None, settings: Settings) -> int:
    """Chat on this process's stdin, stdout and stderr."""
    try:
        return Session(Client(url, api_key), Console(), settings).run()
    except BrokenPipeError:
        # The reader of our stdout left; nothing is wrong, and the interpreter must not flush into the pipe again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
