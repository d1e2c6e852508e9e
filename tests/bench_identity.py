"""The first promise over a whole grid: `make bench-identity`.

Every prompt is answered plainly and then with every drafter and every number of draft tokens, each request alone, with
the settings of a strict engine. The grid is walked in rounds: in each, every drafter answers every prompt once, with a
number of draft tokens that changes from prompt to prompt; after as many rounds as there are numbers the grid is whole.
The full grid takes hours: `--into FILE` keeps every answer, and the same command goes on where it was stopped. The
exit code is 1 when any token differs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from homespec.engine.sequence import Sequence as EngineSequence
from homespec.frames import SetDrafter
from tests.kits.engines import Driver, ask, chat, running
from tests.kits.identity import Divergence, divergence
from tests.kits.models import Models
from tests.kits.prompts import PROMPTS

DRAFTERS = ("suffix", "ngram", "self", "random")
"""`self`: the target drafts for itself; `random`: a drafter without any idea; also the path of a draft file."""
NEEDS_NO_FILE = ("off", "suffix", "ngram")
DRAFT_TOKENS = (1, 2, 3, 4, 7, 15)


@dataclass(frozen=True)
class Cell:
    """One answer of the grid."""

    drafter: str
    """`off` for the plain answer."""
    temperature: float
    prompt: int
    num_draft_tokens: int

    @property
    def plain(self) -> Cell:
        return Cell("off", self.temperature, self.prompt, 0)


@dataclass(frozen=True)
class Outcome:
    """What came of a cell."""

    token_ids: list[int]
    drafted: int
    accepted: int


@dataclass(frozen=True)
class Grid:
    prompts: Sequence[str]
    num_tokens: int
    temperatures: Sequence[float]
    drafters: Sequence[str]
    draft_tokens: Sequence[int]
    num_rounds: int | None
    """None for the whole grid."""
    drop: bool
    """Whether the drafter is taken away in the middle of each answer."""

    def rounds(self) -> Iterator[list[Cell]]:
        """The plain answers, then a list per round and drafter."""
        prompts = range(len(self.prompts))
        yield [Cell("off", temperature, prompt, 0) for temperature in self.temperatures for prompt in prompts]
        for turn in range(len(self.draft_tokens))[: self.num_rounds]:
            for drafter in self.drafters:
                yield [
                    Cell(drafter, temperature, prompt, self.draft_tokens[(prompt + turn) % len(self.draft_tokens)])
                    for temperature in self.temperatures
                    for prompt in prompts
                ]

    @property
    def answers(self) -> dict[str, Any]:
        """What decides the answers beside a cell."""
        return {"num_tokens": self.num_tokens, "drop": self.drop}


class Ledger:
    """The outcomes so far; with a path, also a JSON object a line there, after one that says of which answers."""

    def __init__(self, path: Path | None, answers: dict[str, Any]) -> None:
        self._outcomes: dict[Cell, Outcome] = {}
        self._path = path
        if path is None:
            return
        if not path.exists():
            self._write(answers)
        first, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
        if first != answers:
            raise SystemExit(f"{path} holds answers of {first}, not of {answers}: name another file")
        for line in lines:
            self._outcomes[Cell(**line["cell"])] = Outcome(**line["outcome"])

    def __contains__(self, cell: Cell) -> bool:
        return cell in self._outcomes

    def __getitem__(self, cell: Cell) -> Outcome:
        return self._outcomes[cell]

    def add(self, cell: Cell, outcome: Outcome) -> None:
        self._outcomes[cell] = outcome
        self._write({"cell": asdict(cell), "outcome": asdict(outcome)})

    def _write(self, record: dict[str, Any]) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                print(json.dumps(record), file=file)


class Walk:
    """Answers what has no outcome yet, and compares."""

    def __init__(self, models: Models, grid: Grid, ledger: Ledger) -> None:
        self._models = models
        self._grid = grid
        self._ledger = ledger

    def answer(self, cells: Sequence[Cell]) -> None:
        """All of one drafter."""
        missing = [cell for cell in cells if cell not in self._ledger]
        if not missing:
            return
        with self._engine(missing[0].drafter) as driver:
            assert driver.scheduler.exactness.verdict.strict, driver.scheduler.exactness.verdict.reason
            for cell in missing:
                self._ledger.add(cell, self._outcome(driver, cell))

    def divergences(self, cells: Sequence[Cell]) -> list[Divergence]:
        """Where answers part from the plain ones."""
        found = (
            divergence(
                self._grid.prompts[cell.prompt], self._ledger[cell.plain].token_ids, self._ledger[cell].token_ids
            )
            for cell in cells
        )
        return [each for each in found if each is not None]

    def _engine(self, drafter: str) -> AbstractContextManager[Driver]:
        named = {"self": self._models.demo, "random": self._models.random_drafter}
        draft = None if drafter in NEEDS_NO_FILE else named.get(drafter, Path(drafter))
        return running(self._models.demo, draft=draft, n_ctx=4096, exactness="strict", kv_type="auto")

    def _outcome(self, driver: Driver, cell: Cell) -> Outcome:
        driver.frames.clear()
        sequence = driver.submit(
            ask(
                chat(self._grid.prompts[cell.prompt]),
                mode=cell.drafter if cell.drafter in NEEDS_NO_FILE else driver.roster.file_drafter,
                max_draft_tokens=cell.num_draft_tokens,
                max_tokens=self._grid.num_tokens,
                temperature=cell.temperature,
                ignore_eos=True,
            )
        )
        if self._grid.drop and cell != cell.plain:
            self._drop_in_the_middle(driver, sequence)
        driver.drain()
        answer = driver.answer(sequence)
        return Outcome(answer.token_ids, answer.speculation.drafted, answer.speculation.accepted)

    def _drop_in_the_middle(self, driver: Driver, sequence: EngineSequence) -> None:
        while sequence.num_output_tokens < self._grid.num_tokens // 2:
            driver.scheduler.step()
        driver.scheduler.obey(SetDrafter("off"))
        driver.drain()
        driver.scheduler.obey(SetDrafter("auto"))
        if driver.load_requests:
            driver.load_drafter()

    def tell(self, cells: Sequence[Cell], found: Sequence[Divergence]) -> None:
        drafted = sum(self._ledger[cell].drafted for cell in cells)
        accepted = sum(self._ledger[cell].accepted for cell in cells)
        share = f"{accepted} of {drafted} draft tokens accepted"
        print(f"{Path(cells[0].drafter).stem}: {len(found)} of {len(cells)} answers differ, {share}", flush=True)
        for each in found:
            print(f"  {each}", flush=True)


def main() -> int:
    grid, path = _parse(sys.argv[1:])
    num_different = 0
    with tempfile.TemporaryDirectory() as directory:
        walk = Walk(Models(Path(directory)), grid, Ledger(path, grid.answers))
        for cells in grid.rounds():
            walk.answer(cells)
            found = walk.divergences(cells)
            walk.tell(cells, found)
            num_different += len(found)
    print(f"{num_different} answers differ" if num_different else "every answer is the plain one")
    return int(num_different > 0)


def _prompts(count: int) -> Iterator[str]:
    """The prompts of the tests, then the same with another ending."""
    yield from islice(
        (*PROMPTS, *(f"{prompt} Take your time. ({n})" for n in range(count) for prompt in PROMPTS)), count
    )


def _parse(arguments: Sequence[str]) -> tuple[Grid, Path | None]:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--temperatures", type=lambda text: [float(part) for part in text.split(",")], default=[0.0])
    parser.add_argument("--drafters", type=lambda text: text.split(","), default=list(DRAFTERS))
    parser.add_argument("--draft-tokens", type=numbers, default=list(DRAFT_TOKENS))
    parser.add_argument("--rounds", type=int, help="so many instead of all")
    parser.add_argument("--drop", action="store_true", help="take the drafter away in the middle of each answer")
    parser.add_argument("--into", type=Path, help="keep the answers here, and go on with those that are there")
    given = parser.parse_args(arguments)
    prompts = list(_prompts(given.prompts))
    grid = Grid(prompts, given.tokens, given.temperatures, given.drafters, given.draft_tokens, given.rounds, given.drop)
    return grid, given.into


if __name__ == "__main__":
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    sys.exit(main())
