"""What an answer goes on from: a conversation, a text, or token ids."""

from __future__ import annotations

from typing import Any

import msgspec


class ChatPrompt(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Messages for the model's chat template; content is already plain text."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] = []
    """For a template that knows tools."""
    variables: dict[str, Any] = {}
    """More variables for the template, such as enable_thinking."""
    prefill: str = ""
    """The answer's beginning, which the model goes on from."""
    markers: tuple[str, ...] = ()
    """Texts that structure an answer: spelled out even where the vocabulary holds them as control tokens."""
    reasoning: tuple[str, str] | None = None
    """The pair of them around a thinking block."""
    answers_at_once: bool = False
    """Nothing is thought about: a block that the template leaves open is closed."""


class TextPrompt(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    text: str
    suffix: str = ""
    """Text behind the gap that is to be filled; empty: there is none, the text is gone on from."""


class TokenPrompt(msgspec.Struct, frozen=True, tag=True):
    token_ids: list[int]
