"""The first promise over a whole grid: `make bench-identity`.

Every prompt is answered plainly and then with every drafter and every number of draft tokens, each request alone, with
the settings of a strict engine. Prints one line per cell of the grid; the exit code is 1 when any token differs. The
full grid takes hours: `--prompts`, `--tokens`, `--drafters` and `--draft-tokens` make it smaller.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tests.kits.engines import Answer, Driver, ask, chat, running
from tests.kits.identity import divergences
from tests.kits.models import Models
from tests.kits.prompts import PROMPTS

DRAFTERS = ("suffix", "ngram", "self", "random")
"""`self`: the target drafts for itself; `random`: a drafter without any idea; also the path of a draft file."""
FREE = ("suffix", "ngram")
DRAFT_TOKENS = (1, 2, 3, 4, 7, 15)


@dataclass(frozen=True)
class Grid:
    prompts: Sequence[str]
    num_tokens: int
    temperatures: Sequence[float]
    drafters: Sequence[str]
    draft_tokens: Sequence[int]


def main() -> int:
    grid = _parse(sys.argv[1:])
    with tempfile.TemporaryDirectory() as directory:
        models = Models(Path(directory))
        plain = {temperature: _plain(models, grid, temperature) for temperature in grid.temperatures}
        num_different = sum(_check(models, grid, drafter, plain) for drafter in grid.drafters)
    print(f"{num_different} answers differ" if num_different else "every answer is the plain one")
    return int(num_different > 0)


def _plain(models: Models, grid: Grid, temperature: float) -> list[Answer]:
    started = time.monotonic()
    with _engine(models, "ngram") as driver:
        answers = [_answer(driver, grid, prompt, temperature, "off", 0) for prompt in grid.prompts]
    took = time.monotonic() - started
    print(f"plain, temperature {temperature:g}: {len(answers)} answers in {took:.0f} s", flush=True)
    return answers


def _check(models: Models, grid: Grid, drafter: str, plain: dict[float, list[Answer]]) -> int:
    """Answers that differ, over all temperatures and numbers of draft tokens."""
    num_different = 0
    with _engine(models, drafter) as driver:
        assert driver.scheduler.exactness.verdict.strict, driver.scheduler.exactness.verdict.reason
        for temperature, expected in plain.items():
            for num_draft_tokens in grid.draft_tokens:
                mode = drafter if drafter in FREE else driver.roster.file_drafter
                got = [_answer(driver, grid, prompt, temperature, mode, num_draft_tokens) for prompt in grid.prompts]
                different = divergences(grid.prompts, expected, got)
                num_different += len(different)
                _tell(drafter, temperature, num_draft_tokens, got, [str(each) for each in different])
    return num_different


def _answer(driver: Driver, grid: Grid, prompt: str, temperature: float, mode: str, num_draft_tokens: int) -> Answer:
    driver.frames.clear()
    [answer] = driver.run(
        ask(
            chat(prompt),
            mode=mode,
            max_draft_tokens=num_draft_tokens,
            max_tokens=grid.num_tokens,
            temperature=temperature,
            ignore_eos=True,
        )
    )
    return answer


def _engine(models: Models, drafter: str) -> AbstractContextManager[Driver]:
    named = {"self": models.demo, "random": models.random_drafter}
    draft = None if drafter in FREE else named.get(drafter, Path(drafter))
    return running(models.demo, draft=draft, n_ctx=4096, exactness="strict", kv_type="auto")


def _tell(drafter: str, temperature: float, num_draft_tokens: int, got: list[Answer], different: list[str]) -> None:
    drafted = sum(answer.speculation.drafted for answer in got)
    accepted = sum(answer.speculation.accepted for answer in got)
    cell = f"{Path(drafter).stem:6} temperature {temperature:g} D={num_draft_tokens:<2}"
    share = f"{accepted} of {drafted} draft tokens accepted"
    print(f"{cell}: {len(different)} of {len(got)} differ, {share}", flush=True)
    for line in different:
        print(f"  {line}", flush=True)


def _prompts(count: int) -> Iterator[str]:
    """The prompts of the tests, then the same with another ending."""
    yield from islice(
        (*PROMPTS, *(f"{prompt} Take your time. ({n})" for n in range(count) for prompt in PROMPTS)), count
    )


def _parse(arguments: Sequence[str]) -> Grid:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--temperatures", type=lambda text: [float(part) for part in text.split(",")], default=[0.0])
    parser.add_argument("--drafters", type=lambda text: text.split(","), default=list(DRAFTERS))
    parser.add_argument("--draft-tokens", type=numbers, default=list(DRAFT_TOKENS))
    given = parser.parse_args(arguments)
    prompts = list(_prompts(given.prompts))
    return Grid(prompts, given.tokens, given.temperatures, given.drafters, given.draft_tokens)


if __name__ == "__main__":
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    sys.exit(main())
