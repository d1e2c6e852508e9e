"""A thinking block in front of an answer, as rules of a Lark grammar."""

from __future__ import annotations

from homespec.chat.speller import Speller


def thinking_rules(reasoning: tuple[str, str] | None, spell: Speller, *, in_reasoning: bool) -> list[str]:
    """The start rule: `body`, with thinking allowed before it. Uses a terminal TEXT that matches anything.

    reasoning: the pair of markers around the block, None for a model that does not think.
    in_reasoning: the prompt ends inside the block, which the answer must close first.
    """
    if reasoning is None:
        return ["start: body"]
    start, end = reasoning
    rest = spell.up_to("rest", end)
    if in_reasoning:
        return ["start: rest body", rest]
    return [
        f"start: think rest body | {spell(end)} body | body",
        f"{spell.first('think', start)}: {spell(start)}",
        rest,
    ]
