"""The parts of a finished answer."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field

from homespec.chat.answer_parser import Piece
from homespec.chat.harmony import make_parser
from homespec.chat.tool_format import Tools

_ID_CHARS = 9
"""Mistral's templates take ids of this length only, and no other family minds."""
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def call_id() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_CHARS))


@dataclass(slots=True)
class Call:
    """One call of a function."""

    name: str
    arguments: str = ""
    """JSON; cut off where the answer was."""
    id: str = field(default_factory=call_id)


@dataclass(slots=True)
class Answer:
    """Pieces put together."""

    reasoning: str = ""
    content: str = ""
    calls: list[Call] = field(default_factory=list)

    def add(self, piece: Piece) -> None:
        match piece.kind:
            case "reasoning":
                self.reasoning += piece.text
            case "content":
                self.content += piece.text
            case "call":
                self.calls.append(Call(piece.text))
            case "arguments":
                self.calls[piece.index].arguments += piece.text


def read_answer(text: str, reasoning: tuple[str, str] | None, tools: Tools | None) -> Answer:
    """The parts of a whole text."""
    parser = make_parser(reasoning, tools)
    return _joined([*parser.push(text), *parser.finish()])


def _joined(pieces: Iterable[Piece]) -> Answer:
    answer = Answer()
    for piece in pieces:
        answer.add(piece)
    return answer


def finish_reason(reason: str, num_calls: int) -> str:
    """An answer that ends with calls says so; one that was cut off says that instead."""
    return "tool_calls" if reason == "stop" and num_calls else reason
