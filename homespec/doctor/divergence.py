"""Plain against drafted answers, token by token, so that a rounding difference can be told from a fault.

Greedy answers may part only where the two best tokens are nearly equal: there the last bits of a sum decide. A
difference at a wide margin is a bug.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from homespec.client.http import Client

ROUNDING_MARGIN = 0.05
"""Largest distance between two log-probabilities that rounding may explain; f16 keys move logits by 0.01."""
_NUM_TOP = 20
"""Most candidates per token that the API tells."""


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
    """By how much the plain answer's token was likelier than the drafted one's, at that place and at least."""
    num_drafted: int = 0
    reason: str = ""
    """Why nothing was drafted, or who drafts."""

    @property
    def is_same(self) -> bool:
        return self.position is None

    @property
    def is_rounding(self) -> bool:
        return self.margin is not None and self.margin <= ROUNDING_MARGIN

    def __str__(self) -> str:
        if self.is_same:
            return f"same      {self.num_tokens:4} tokens, {self.num_drafted:3} drafted"
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
            "top_logprobs": _NUM_TOP,
            "cache_prompt": False,  # both read all of the prompt: nothing but the drafts differs
            "speculative": speculative,
        }
    )


def _compared(prompt: str, plain: dict[str, Any], drafted: dict[str, Any]) -> Comparison:
    expected, got = _tokens(plain), _tokens(drafted)
    report = drafted["speculative"]
    same = Comparison(prompt, len(expected), None, num_drafted=report["drafted"], reason=report["reason"])
    for position, (left, right) in enumerate(zip_longest(expected, got)):
        if left is None or right is None or left["bytes"] != right["bytes"]:
            return replace(
                same,
                position=position,
                plain_token=_text(left),
                drafted_token=_text(right),
                margin=_margin(left, right),
            )
    return same


def _tokens(answer: dict[str, Any]) -> list[dict[str, Any]]:
    return answer["choices"][0]["logprobs"]["content"] or []


def _text(token: dict[str, Any] | None) -> str:
    return "(end)" if token is None else str(token["token"])


def _margin(plain: dict[str, Any] | None, drafted: dict[str, Any] | None) -> float | None:
    """None where there is no row to look at. The end of an answer has none, and counts as the second best token."""
    row = plain or drafted
    if row is None or len(row["top_logprobs"]) < 2:
        return None
    top = row["top_logprobs"]
    if plain is None or drafted is None:
        return float(top[0]["logprob"] - top[1]["logprob"])
    found = (each["logprob"] for each in top if each["bytes"] == drafted["bytes"])
    return float(plain["logprob"] - next(found, top[-1]["logprob"]))
