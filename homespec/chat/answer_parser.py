"""From the text of an answer to its parts: thinking, content and tool calls; as it comes, and never taken back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from homespec.chat.arguments import ArgumentReader, JsonReader, argument_reader, held_back
from homespec.chat.tool_format import Tools


@dataclass(frozen=True, slots=True)
class Piece:
    """An addition to one part of the answer."""

    kind: Literal["reasoning", "content", "call", "arguments"]
    text: str
    """For a call: the function's name."""
    index: int = 0
    """Of the call."""
    at: int = field(default=0, compare=False)
    """Of reasoning and content: where it stands in the whole text."""


class AnswerParser:
    """Takes the text in any portions; the joined pieces do not depend on where it was cut."""

    def __init__(self, reasoning: tuple[str, str] | None, tools: Tools | None) -> None:
        self._reasoning_marks = reasoning
        self._tools = tools.format if tools else None
        self._schemas = tools.schemas if tools else {}
        self._buffer = ""
        self._num_pushed = 0
        self._final = False
        self._pieces: list[Piece] = []
        self._state: Callable[[], bool] = self._start if reasoning else self._answer_start
        self._began = False
        """Something of the current part has been given out; until then leading space is dropped."""
        self._space = ""
        """In front of what may be a call; part of the content if it is none."""
        self._call = -1
        self._reader: ArgumentReader = JsonReader()

    @property
    def num_calls(self) -> int:
        return self._call + 1

    def push(self, text: str) -> list[Piece]:
        self._buffer += text
        self._num_pushed += len(text)
        return self._run()

    def finish(self) -> list[Piece]:
        """The rest; a call that was cut off before its name is dropped."""
        self._final = True
        return self._run()

    def _run(self) -> list[Piece]:
        self._pieces = []
        while self._state():
            pass
        return self._pieces

    # States: each takes what it can from the buffer; True when the next state should look at the rest.

    def _start(self) -> bool:
        assert self._reasoning_marks is not None
        text = self._buffer.lstrip()
        for mark, state in zip(self._reasoning_marks, (self._reasoning, self._answer_start), strict=True):
            if text.startswith(mark):  # the closing one alone: an answer that says that it does not think
                self._buffer, self._state = text[len(mark) :], state
                return True
        if any(self._may_become(text, mark) for mark in self._reasoning_marks):
            return False
        self._began = True  # space in front of an answer without thinking belongs to it
        self._state = self._answer_start
        return True

    def _reasoning(self) -> bool:
        assert self._reasoning_marks is not None
        mark = self._reasoning_marks[1]
        if not self._began:
            self._buffer = self._buffer.lstrip()
        before, found, after = self._buffer.partition(mark)
        if found:
            self._give("reasoning", before.rstrip())
            self._buffer, self._began, self._state = after, False, self._answer_start
            return True
        self._give_all_but("reasoning", "" if self._final else mark)
        return False

    def _answer_start(self) -> bool:
        if not self._began and self._reasoning_marks is not None:
            self._buffer = self._buffer.lstrip()
            if not self._buffer and not self._final:
                return False
        tools = self._tools
        if tools is not None and not tools.anywhere:
            text = self._buffer.lstrip()
            if tools.prefix and text.startswith(tools.prefix):
                self._buffer = text = text.removeprefix(tools.prefix).lstrip()
            if text.startswith(tools.start):
                self._buffer, self._state = text, self._opening
                return True
            if self._may_become(text, tools.start) or self._may_become(text, tools.prefix):
                return False
        self._state = self._content
        return True

    def _content(self) -> bool:
        if self._tools is None or not self._tools.anywhere:
            self._give_all_but("content", "")
            return False
        trigger = self._tools.trigger
        before, found, _ = self._buffer.partition(trigger)
        if found:
            text = before.rstrip()
            self._give("content", text)
            self._space = before[len(text) :]
            self._buffer, self._state = self._buffer[len(before) :], self._opening
            return True
        self._give_all_but("content", trigger)
        return False

    def _opening(self) -> bool:
        assert self._tools is not None
        start = self._tools.start
        if self._buffer.startswith(start):
            self._buffer, self._state = self._buffer[len(start) :], self._name
            return True
        if self._may_become(self._buffer, start):
            return False
        if self._final and start.startswith(self._buffer):
            self._state = self._done
            return True
        self._give("content", self._space + self._buffer[0], ahead=len(self._space))
        self._space = ""
        self._buffer, self._state = self._buffer[1:], self._content
        return True

    def _name(self) -> bool:
        assert self._tools is not None
        split = self._tools.split_name(self._buffer)
        if split is None:
            return False
        name, self._buffer = split
        self._begin_call(name, argument_reader(self._tools.arguments, self._schemas.get(name), self._tools.end))
        return True

    def _arguments(self) -> bool:
        text, self._buffer, is_whole = self._reader.read(self._buffer, final=self._final)
        if text:
            self._pieces.append(Piece("arguments", text, self._call))
        if is_whole:
            self._state = self._after_call
        return is_whole

    def _after_call(self) -> bool:
        assert self._tools is not None
        more = self._tools.end + self._tools.separator + self._tools.begin
        if self._buffer.startswith(more):
            self._buffer, self._state = self._buffer[len(more) :], self._name
            return True
        if self._may_become(self._buffer, more):
            return False
        self._state = self._done
        return True

    def _done(self) -> bool:
        """Behind the calls stands nothing but their closing."""
        self._buffer = ""
        return False

    def _begin_call(self, name: str, reader: ArgumentReader) -> None:
        self._call += 1
        self._pieces.append(Piece("call", name, self._call))
        self._reader, self._state = reader, self._arguments

    def _may_become(self, text: str, mark: str) -> bool:
        return not self._final and len(text) < len(mark) and mark.startswith(text)

    def _give(self, kind: Literal["reasoning", "content"], text: str, *, ahead: int = 0) -> None:
        """`text` stands at the start of the buffer, or that many characters ahead of it."""
        if text:
            self._began = True
            self._pieces.append(Piece(kind, text, at=self._num_pushed - len(self._buffer) - ahead))

    def _give_all_but(self, kind: Literal["reasoning", "content"], mark: str) -> None:
        """Hold back what may be the start of `mark`, and space that may turn out to stand in front of it."""
        text = self._buffer
        if mark and not self._final:
            text = text[: len(text) - held_back(text, mark)].rstrip()
        elif kind == "reasoning":
            text = text.rstrip()
        self._give(kind, text)
        self._buffer = self._buffer[len(text) :]
