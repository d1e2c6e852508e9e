"""Plain against drafted answers, token by token, so that a rounding difference can be told from a fault.

Greedy answers may part only where the two best tokens are nearly equal: there the last bits of a sum decide. A
difference at a wide margin is a bug.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from homespec.client.http import Client

ROUNDING_MARGIN = 0.05
"""Largest distance between the two best log-probabilities that rounding may explain; f16 keys move logits by 0.01."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One prompt, answered both ways."""

    prompt: str
    num_tokens: int
    """Of the plain answer."""
    position: int | None
    """The first differing token; None when the answers are the same."""
    plain_token: str = ""
    drafted_token: str = ""
    margin: float | None = None
    """Distance between the two best log-probabilities of the plain answer at that place."""
    acceptance_length: float | None = None

    @property
    def is_same(self) -> bool:
        return self.position is None

    @property
    def is_rounding(self) -> bool:
        return self.margin is not None and self.margin <= ROUNDING_MARGIN

    def __str__(self) -> str:
        if self.is_same:
            return f"same      {self.num_tokens:4} tokens"
        kind = "rounding" if self.is_rounding else "DIFFERENT"
        margin = "unknown" if self.margin is None else f"{self.margin:.4f}"
        return (
            f"{kind:9} at token {self.position}: {self.plain_token!r} plain, {self.drafted_token!r} drafted, "
            f"margin {margin}"
        )


async def compare(
    client: Client, prompts: Sequence[str], *, drafter: str, max_tokens: int, max_draft_tokens: int
) -> AsyncIterator[Comparison]:
    """Ask every prompt twice, greedy. Raises what the client raises."""
    for prompt in prompts:
        plain = await _answer(client, prompt, max_tokens, {"mode": "off"})
        speculative = {"mode": drafter, "max_draft_tokens": max_draft_tokens}
        drafted = await _answer(client, prompt, max_tokens, speculative)
        yield _compared(prompt, plain, drafted)


async def _answer(client: Client, prompt: str, max_tokens: int, speculative: dict[str, Any]) -> dict[str, Any]:
    return await client.complete(
        {
            "messages": [{"role": "user", "content": prompt}],
            "temperature": 0,
            "max_tokens": max_tokens,
            "logprobs": True,
            "top_logprobs": 2,
            "speculative": speculative,
        }
    )


def _compared(prompt: str, plain: dict[str, Any], drafted: dict[str, Any]) -> Comparison:
    expected, got = _tokens(plain), _tokens(drafted)
    length = drafted["speculative"]["acceptance_length"]
    for position in range(max(len(expected), len(got))):
        left, right = _text_at(expected, position), _text_at(got, position)
        if left != right:
            margin = _margin(expected[position]) if position < len(expected) else None
            return Comparison(prompt, len(expected), position, left, right, margin, length)
    return Comparison(prompt, len(expected), None, acceptance_length=length)


def _tokens(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return answer["choices"][0]["logprobs"]["content"] or []


def _text_at(tokens: Sequence[dict[str, Any]], position: int) -> str:
    return str(tokens[position]["token"]) if position < len(tokens) else "(end)"


def _margin(token: dict[str, Any]) -> float | None:
    top = token["top_logprobs"]
    return float(top[0]["logprob"] - top[1]["logprob"]) if len(top) == 2 else None
