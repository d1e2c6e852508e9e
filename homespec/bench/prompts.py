"""The prompts of a bench, in the schema of SPEED-Bench's qualitative split: `question_id`, `category`, `turns`."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import msgspec

from homespec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Prompt:
    """A conversation to be had: the user's turns, each asked after the answer to the one before."""

    question_id: str
    category: str
    turns: tuple[str, ...]


class _Line(msgspec.Struct):
    """One line of a prompts file; other fields are skipped."""

    question_id: str | int
    category: str
    turns: list[str]


_decoder = msgspec.json.Decoder(_Line)


def load_prompts(path: Path | None) -> list[Prompt]:
    """The prompts of a JSONL file; None: our own set. Raises ConfigError that names the line."""
    if path is None:
        return parse_prompts(files("homespec.bench").joinpath("data/prompts.jsonl").read_bytes(), "our own prompts")
    try:
        return parse_prompts(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"prompts file {path} cannot be read: {error.strerror}; check --prompts") from error


def parse_prompts(data: bytes, origin: str) -> list[Prompt]:
    """One prompt per line; empty lines are skipped. Raises ConfigError for a bad line, and for a prompt that is there
    twice: whatever remembers would answer it faster the second time.
    """
    prompts: list[Prompt] = []
    line_of: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{origin}, line {number}"
        prompt = _parse_line(line, where)
        if (first := line_of.setdefault(prompt.turns, number)) != number:
            raise ConfigError(f"{where}: the same turns as in line {first}; every prompt may be asked once")
        prompts.append(prompt)
    if not prompts:
        raise ConfigError(f"{origin} holds no prompt; each line is {{'question_id', 'category', 'turns'}} in JSON")
    return prompts


def _parse_line(line: bytes, where: str) -> Prompt:
    try:
        fields = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{where}: {error}; each line is {{'question_id', 'category', 'turns'}} in JSON") from error
    if not fields.turns or not all(turn.strip() for turn in fields.turns):
        raise ConfigError(f"{where}: turns is empty or holds an empty text; the user must say something")
    return Prompt(str(fields.question_id), fields.category, tuple(fields.turns))


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
            raise ConfigError(f"category {name!r} is not in the prompts{hint} There are: {', '.join(known)}")
    wanted = set(categories or known)
    taken: Counter[str] = Counter()
    chosen = []
    for prompt in prompts:
        taken[prompt.category] += 1
        if prompt.category in wanted and (per_category is None or taken[prompt.category] <= per_category):
            chosen.append(prompt)
    return chosen
