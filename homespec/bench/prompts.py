"""The prompts of a bench, in the schema of SPEED-Bench's qualitative split: `question_id`, `category`, `turns`."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from homespec.bench.prompt_rows import SHAPE, Row, json_rows
from homespec.bench.prompt_table import is_table, table_rows
from homespec.errors import ConfigError

PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"
"""What SPEED-Bench publishes instead of texts that it may not pass on; its prepare.py fetches them."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation to be had: the user's turns, each asked after the answer to the one before."""

    question_id: str
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PromptSet:
    """What a file holds, every prompt once and every id once."""

    prompts: tuple[Prompt, ...]
    notes: tuple[str, ...] = ()
    """What of the file is not asked, and why."""


def load_prompts(path: Path | None) -> PromptSet:
    """The prompts of a JSONL, JSON or parquet file; None: our own set. Raises ConfigError that names the place."""
    if path is None:
        return parse_prompts(files("homespec.bench").joinpath("data/prompts.jsonl").read_bytes(), "our own prompts")
    try:
        return parse_prompts(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"prompts file {path} cannot be read: {error.strerror}; check --prompts") from error


def parse_prompts(data: bytes, origin: str) -> PromptSet:
    """A prompt that is there twice is taken once: whatever remembers would answer it faster the second time. Texts that
    are to be fetched elsewhere are left out. Raises ConfigError for a bad row, for an id with two meanings, and when
    nothing is left.
    """
    rows = table_rows(data, origin) if is_table(data, origin) else json_rows(data, origin)
    known = [row for row in rows if not any(PLACEHOLDER in turn for turn in row.turns)]
    if rows and not known:
        raise ConfigError(
            f"{origin} holds only placeholders ({len(rows)}) for texts that SPEED-Bench may not pass on; "
            f"fetch them with its prepare.py, then pass what that writes"
        )
    if not rows:
        raise ConfigError(f"{origin} holds no prompt; each is {SHAPE} in JSON")
    prompts, repeats = _once_each(known, origin)
    return PromptSet(tuple(prompts), tuple(_notes(origin, repeats, len(rows) - len(known))))


def _once_each(rows: Iterable[Row], origin: str) -> tuple[list[Prompt], list[tuple[Row, Row]]]:
    """The prompts, and the rows that ask one of them again, each with the first that did.

    Answers of two sides are paired by id, so an id must mean one prompt.
    """
    first_of: dict[tuple[str, ...], Row] = {}
    repeats: list[tuple[Row, Row]] = []
    row_of: dict[str, Row] = {}
    for row in rows:
        first = row_of.setdefault(row.question_id, row)
        if first.key != row.key:
            raise ConfigError(
                f"{origin}, {first.place} and {row.place}: question_id {row.question_id!r} has two different turns; "
                f"give each prompt an id of its own"
            )
        if (asked := first_of.setdefault(row.key, row)) is not row:
            repeats.append((row, asked))
    return [Prompt(row.question_id, row.category, row.turns) for row in first_of.values()], repeats


def _notes(origin: str, repeats: Sequence[tuple[Row, Row]], num_placeholders: int) -> Iterable[str]:
    if repeats:
        again, first = repeats[0]
        yield (
            f"{len(repeats)} prompts of {origin} repeat earlier ones and are asked once; "
            f"the first of them is {again.question_id!r}, whose {again.place} says the same as {first.place}"
        )
    if num_placeholders:
        yield (
            f"{num_placeholders} prompts of {origin} are placeholders for texts that SPEED-Bench may not pass on, "
            f"and are left out; its prepare.py fetches them"
        )


def categories_of(prompts: Iterable[Prompt]) -> list[str]:
    """In the order in which they come up."""
    return list(dict.fromkeys(prompt.category for prompt in prompts))


def select(prompts: Sequence[Prompt], categories: Sequence[str], per_category: int | None) -> list[Prompt]:
    """The first prompts of each category asked for; no category means all. Raises ConfigError for an unknown one."""
    known = categories_of(prompts)
    for name in categories:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"category {name!r} is not in the prompts{hint}; there are: {', '.join(known)}")
    wanted = set(categories or known)
    taken: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        taken[prompt.category] += 1
        if prompt.category in wanted and (per_category is None or taken[prompt.category] <= per_category):
            chosen.append(prompt)
    return chosen
