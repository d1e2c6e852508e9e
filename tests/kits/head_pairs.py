"""Targets with their heads, what they say, and requests that show whether anything was left of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from homespec.stats import MAX_DRAFT_TOKENS
from tests.kits.drafters import RecordingDrafter
from tests.kits.engines import Answer, Driver, ask, running
from tests.kits.gguf_kit import NUM_TOKENS, NextToken, TinyModel, follow, wrong_on
from tests.kits.heads_kit import (
    BLOCK,
    LAG,
    deep_random,
    dense_markov,
    dflash_lag,
    dspark_markov,
    eagle3_markov,
    mtp_markov,
    random_dflash,
    random_dspark,
    random_eagle3,
    random_mtp,
)
from tests.kits.models import Models

KINDS = ("eagle3", "mtp", "dflash", "dspark")
LAYOUTS = (*KINDS, "dflash-sliding", "dspark-bonus")
"""The kinds, and what else a file of one may be: with a sliding window; with a first row that drafts nothing."""
RING = tuple(b"abcdefghijk")
"""What the target of the DFlash head says in turn: as many letters as the head looks back by."""


def ring() -> NextToken:
    """The letters of `RING` in turn; every other token follows itself."""
    next_token = np.arange(NUM_TOKENS)
    next_token[list(RING)] = np.roll(RING, -1)
    return next_token


def kind_of(layout: str) -> str:
    return layout.partition("-")[0]


@dataclass(frozen=True)
class Pair:
    """A target, its head, and what they say."""

    kind: str
    most: int
    """Tokens that one draft can have."""
    target: Path
    head: Path
    next_token: NextToken
    drafted: NextToken

    @property
    def prompt(self) -> list[int]:
        return follow(self.next_token, RING[0], 3 * LAG)

    def draft(self, truth: Sequence[int], n: int, count: int) -> list[int]:
        """What the head proposes behind `truth[:n]`."""
        if self.kind == "dflash":
            return [int(self.drafted[truth[at - LAG]]) for at in range(n, n + min(count, self.most))]
        return follow(self.drafted, truth[n - 1], min(count, self.most))


def pair_of(models: Models, layout: str, *, wrong: float = 0.0) -> Pair:
    """A head that is wrong behind a share of the tokens."""
    kind = kind_of(layout)
    next_token = ring() if kind == "dflash" else models.chain
    drafted = np.arange(NUM_TOKENS) if kind == "dflash" else next_token
    if wrong and kind == "dflash":
        drafted = drafted.copy()
        drafted[list(RING[:: round(1 / wrong)])] = ord("z")
    elif wrong:
        drafted = wrong_on(next_token, wrong)
    target = mtp_markov(next_token, drafted) if kind == "mtp" else dense_markov(next_token)
    heads: dict[str, Callable[[NextToken], TinyModel]] = {
        "eagle3": eagle3_markov,
        "dflash": dflash_lag,
        "dflash-sliding": partial(dflash_lag, is_sliding=True),
        "dspark": dspark_markov,
        "dspark-bonus": partial(dspark_markov, from_anchor=False),
    }
    target_path = models.write(f"{kind}-{wrong}-target", target)
    head_path = target_path if kind == "mtp" else models.write(f"{layout}-{wrong}-head", heads[layout](drafted))
    most = {"dflash": BLOCK - 1, "dflash-sliding": BLOCK - 1, "dspark": BLOCK, "dspark-bonus": BLOCK - 1}
    return Pair(kind, most.get(layout, MAX_DRAFT_TOKENS), target_path, head_path, next_token, drafted)


def random_pair(models: Models, layout: str) -> tuple[Path, Path]:
    """Random weights on both sides: every state before the last matters to what is drafted."""
    if layout == "mtp":
        path = models.write("random-mtp", random_mtp(3))
        return path, path
    heads: dict[str, Callable[[int], TinyModel]] = {
        "eagle3": random_eagle3,
        "dflash": random_dflash,
        "dflash-sliding": partial(random_dflash, is_sliding=True),
        "dspark": random_dspark,
        "dspark-bonus": partial(random_dspark, from_anchor=False),
    }
    return models.write("deep-random", deep_random(1)), models.write(f"random-{layout}", heads[layout](2))


def counts(answer: Answer) -> tuple[int, int]:
    return answer.speculation.drafted, answer.speculation.accepted


class Golden:
    """One request whose drafts are known from an engine that has done nothing else."""

    def __init__(self, driver: Driver, kind: str) -> None:
        self.driver = driver
        self.kind = kind
        self._count = 0
        self.expected = self.drafts()

    def drafts(self) -> tuple[list[int], list[list[int]]]:
        """Tokens and drafts of the request, in a slot of its own."""
        recording = RecordingDrafter(self.driver.roster._drafters[self.kind])
        self.driver.roster._drafters[self.kind] = recording
        self._count += 1
        request = ask(
            [40 + index % 7 for index in range(40)],
            mode=self.kind,
            max_draft_tokens=3,
            max_tokens=24,
            ignore_eos=True,
            partition=f"golden{self._count}",
        )
        [answer] = self.driver.run(request)
        self.driver.roster._drafters[self.kind] = recording._inner
        return answer.token_ids, recording.drafts

    def holds(self) -> bool:
        self.driver.forget_prefixes()
        return self.drafts() == self.expected


@contextmanager
def golden(models: Models, layout: str, **settings: int) -> Iterator[Golden]:
    target, head = random_pair(models, layout)
    with running(target, draft=head, threads=1, n_ctx=256, **settings) as driver:
        yield Golden(driver, kind_of(layout))


def stop_in_the_middle(driver: Driver, kind: str) -> None:
    """An answer that a stop string ends, at a token that was reached before."""
    request: dict[str, Any] = {"mode": kind, "ignore_eos": True}
    [whole] = driver.run(ask(b"stopped", max_tokens=9, **request))
    [stopped] = driver.run(ask(b"stopped", max_tokens=60, stop=(whole.text[-2:],), **request))
    assert stopped.finished.finish_reason == "stop"
    assert len(stopped.token_ids) <= 9
