"""A trained EAGLE-3 head on the real model: the same answers, and the acceptance that its makers measured.

The head lies beside the repository (`smollm2-135m-eagle3-q8_0.gguf`); without it these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.kits.engines import Answer, Driver, ask, chat, running
from tests.kits.models import Models
from tests.kits.prompts import PROMPTS

pytestmark = pytest.mark.real

NAME = "smollm2-135m-eagle3-q8_0.gguf"
PROSE = [PROMPTS[index] for index in (0, 3, 13, 20)]
D = 5
REACH = (0.454, 0.209, 0.090, 0.030, 0.013)
"""Share of rounds that accept the n-th draft token: greedy, 60 prompts, in the file's README."""
NOISE = 0.12
"""Four other prompts, of 40 tokens: some twenty-five rounds each."""


@pytest.fixture(scope="module")
def driver(models: Models) -> Iterator[Driver]:
    found = [folder / "shared/models" / NAME for folder in Path(__file__).parents]
    head = next((path for path in found if path.exists()), None)
    if head is None:
        pytest.skip(f"{NAME} is not beside the repository")
    with running(models.demo, draft=head, n_ctx=1024) as opened:
        yield opened


def answers(driver: Driver, mode: str, *, together: bool = False) -> list[Answer]:
    requests = [ask(chat(prompt), mode=mode, max_draft_tokens=D, max_tokens=40) for prompt in PROSE]
    driver.forget_prefixes()
    return driver.run(*requests) if together else [driver.run(request)[0] for request in requests]


def reach(answered: Sequence[Answer]) -> list[float]:
    """Per position, over all rounds that drafted."""
    stats = [answer.sequence.stats for answer in answered]
    rounds = sum(each.num_drafts for each in stats)
    return [sum(sum(each.num_accepted_per_position[at : at + 1]) for each in stats) / rounds for at in range(D)]


def test_answers_are_the_plain_ones_and_acceptance_is_as_trained(driver: Driver) -> None:
    assert driver.drafter_status("eagle3").state == "ready"
    plain = answers(driver, "off")
    alone = answers(driver, "eagle3")
    assert [answer.token_ids for answer in alone] == [answer.token_ids for answer in plain]
    assert reach(alone) == pytest.approx(REACH, abs=NOISE)
    together = answers(driver, "eagle3", together=True)
    assert reach(together) == pytest.approx(reach(alone), abs=0.05)
