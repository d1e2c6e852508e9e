"""How an answer is to be made: sampled, drafted, constrained, with calls of tools."""

from __future__ import annotations

import msgspec


class Sampling(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a token is chosen from a row of logits, in llama.cpp's order of the chain."""

    temperature: float = 0.8
    """0 is greedy."""
    top_k: int = 40
    """0 keeps every token."""
    top_p: float = 0.95
    min_p: float = 0.05
    seed: int = 0
    logit_bias: dict[int, float] = {}
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    """Tokens that the three penalties look back on, prompt included; -1 means all."""


class Speculation(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a request asks of the drafters."""

    mode: str = "auto"
    max_draft_tokens: int | None = None
    acceptance: str | None = None
    """None: as the engine is set."""
    spans: bool = False
    """Say of a streamed text which of it accepted draft tokens wrote."""


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the answer must look like."""

    kind: str
    """json_schema, regex, lark, or grammar (Lark or GBNF)."""
    text: str
    param: str
    """The request field it came from."""


class FunctionSpec(msgspec.Struct, frozen=True, array_like=True):
    """A function that the answer may call."""

    name: str
    schema: str
    """JSON schema of its arguments, as JSON."""
    strict: bool = False
    """Followed to the letter or refused."""


class ToolUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which calls an answer may hold."""

    tool_format: str
    """Name of a row in homespec.chat.tool_format."""
    functions: tuple[FunctionSpec, ...]
    required: bool = False
    """The answer is nothing but calls."""
    parallel: bool = True
    """More than one call is allowed."""
    answer_schema: str | None = None
    """JSON schema of an answer that is not a call."""
