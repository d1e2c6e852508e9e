"""The first promise over a whole grid: `make bench-identity`.

Every prompt is answered plainly, alone, and then with every drafter and every number of draft tokens, with the settings
of a strict engine: alone too, or with `--slots` several at once. The grid is walked in rounds: in each, every drafter
answers every prompt once, with a number of draft tokens that changes from prompt to prompt; after as many rounds as
there are numbers the grid is whole. The full grid takes hours: `--into FILE` keeps every answer, and the same command
goes on where it was stopped. The exit code is 1 when any token differs.
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
    num_slots: int = 1
    """Drafted answers at once."""
    model: Path | None = None
    """None: the demo model."""

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
        answers: dict[str, Any] = {"num_tokens": self.num_tokens, "drop": self.drop}
        return answers if self.model is None else {**answers, "model": self.model.name}


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
        is_plain = missing[0] == missing[0].plain
        num_slots = 1 if is_plain else self._grid.num_slots
        with self._engine(missing[0].drafter, num_slots) as driver:
            assert driver.scheduler.exactness.verdict.strict, driver.scheduler.exactness.verdict.reason
            for start in range(0, len(missing), num_slots):
                self._answer_at_once(driver, missing[start : start + num_slots])

    def divergences(self, cells: Sequence[Cell]) -> list[Divergence]:
        """Where answers part from the plain ones."""
        found = (
            divergence(
                self._grid.prompts[cell.prompt], self._ledger[cell.plain].token_ids, self._ledger[cell].token_ids
            )
            for cell in cells
        )
        return [each for each in found if each is not None]

    def _engine(self, drafter: str, num_slots: int) -> AbstractContextManager[Driver]:
        target = self._grid.model or self._models.demo
        named = {"self": target, "random": self._models.random_drafter}
        draft = None if drafter in NEEDS_NO_FILE else named.get(drafter, Path(drafter))
        return running(target, draft=draft, n_ctx=4096, slots=num_slots, exactness="strict", kv_type="auto")

    def _answer_at_once(self, driver: Driver, cells: Sequence[Cell]) -> None:
        driver.frames.clear()
        sequences = [self._ask(driver, cell) for cell in cells]
        if self._grid.drop and cells[0] != cells[0].plain:
            self._drop_in_the_middle(driver, sequences[0])
        driver.drain()
        for cell, sequence in zip(cells, sequences, strict=True):
            answer = driver.answer(sequence)
            outcome = Outcome(answer.token_ids, answer.speculation.drafted, answer.speculation.accepted)
            self._ledger.add(cell, outcome)

    def _ask(self, driver: Driver, cell: Cell) -> EngineSequence:
        return driver.submit(
            ask(
                chat(self._grid.prompts[cell.prompt]),
                mode=cell.drafter if cell.drafter in NEEDS_NO_FILE else driver.roster.file_drafter,
                max_draft_tokens=cell.num_draft_tokens,
                max_tokens=self._grid.num_tokens,
                temperature=cell.temperature,
                ignore_eos=True,
            )
        )

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
    parser.add_argument("--slots", type=int, default=1, help="so many drafted answers at once")
    parser.add_argument("--model", type=Path, help="another one than the demo model")
    parser.add_argument("--into", type=Path, help="keep the answers here, and go on with those that are there")
    given = parser.parse_args(arguments)
    prompts = list(_prompts(given.prompts))
    grid = Grid(
        prompts=prompts,
        num_tokens=given.tokens,
        temperatures=given.temperatures,
        drafters=given.drafters,
        draft_tokens=given.draft_tokens,
        num_rounds=given.rounds,
        drop=given.drop,
        num_slots=given.slots,
        model=given.model,
    )
    return grid, given.into


if __name__ == "__main__":
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    sys.exit(main())
