"""The terminal or the pipes that a chat runs on: answers to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO

from homespec.units import clean_lines

PROMPT = "> "
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class Console:
    """Line in, text out. `interactive` when a person types, that is, when stdin is a terminal."""

    def __init__(self) -> None:
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            _never_fail_to_encode(stream)
        self.interactive = sys.stdin.isatty()
        self._stdout_is_terminal = sys.stdout.isatty()
        self._dim = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        self._thinks = False
        """Thinking has been shown and not ended."""
        if self.interactive:
            _load_line_editing()

    def read(self) -> str | None:
        """The next line without its end; None when there are no more. KeyboardInterrupt passes through."""
        if not self.interactive:
            line = sys.stdin.readline()
            return line.rstrip("\r\n") if line else None
        try:
            if self._stdout_is_terminal:
                return input(PROMPT)
            # stdout belongs to the answers alone.
            print(PROMPT, end="", file=sys.stderr, flush=True)
            return input()
        except EOFError:
            return None

    def write(self, text: str) -> None:
        """Part of an answer, shown at once. A model's control characters do not reach a terminal."""
        if text:
            self.end_thinking()
        sys.stdout.write(clean_lines(text) if self._stdout_is_terminal else text)
        sys.stdout.flush()

    def think(self, text: str) -> None:
        """Part of what the model says to itself: dimmed, and beside the answers."""
        shown = clean_lines(text) if sys.stderr.isatty() else text
        self._thinks = True
        print(f"{_DIM}{shown}{_PLAIN}" if self._dim else shown, end="", file=sys.stderr, flush=True)

    def end_thinking(self) -> None:
        """The answer begins, or nothing more comes."""
        if self._thinks:
            self._thinks = False
            print(file=sys.stderr, flush=True)

    def note(self, text: str) -> None:
        """A quiet line for the person."""
        print(f"{_DIM}{text}{_PLAIN}" if self._dim else text, file=sys.stderr, flush=True)

    def error(self, text: str) -> None:
        print(f"homespec: {text}", file=sys.stderr, flush=True)


def _never_fail_to_encode(stream: TextIO) -> None:
    """A terminal in an old locale shows a question mark instead of ending the chat."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="replace")


def _load_line_editing() -> None:
    """Importing readline is what gives `input` its editing and its history."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401
