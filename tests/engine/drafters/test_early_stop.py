"""Drafters that make one token after the other stop where the next one is not worth its time, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kits.drafters import RecordingDrafter
from tests.kits.engines import ask, running
from tests.kits.gemma_kit import assistant_markov, gemma4_markov
from tests.kits.gguf_kit import NextToken, follow
from tests.kits.head_pairs import pair_of
from tests.kits.models import Models

pytestmark = pytest.mark.real


def files(models: Models, kind: str) -> tuple[str, Path, Path, NextToken]:
    """Name of the drafter, target and draft file, what they say."""
    match kind:
        case "draft":
            return "draft", models.markov, models.markov_drafter, models.chain
        case "assistant":
            target = models.write("gemma4", gemma4_markov(models.chain))
            return "mtp", target, models.write("assistant", assistant_markov(models.chain)), models.chain
    pair = pair_of(models, kind)
    return kind, pair.target, pair.head, pair.next_token


@pytest.mark.parametrize("kind", ["draft", "eagle3", "mtp", "assistant"])
@pytest.mark.parametrize("num_slots", [1, 4])
def test_a_draft_ends_where_no_further_token_is_worth_making(models: Models, kind: str, num_slots: int) -> None:
    name, target, draft, next_token = files(models, kind)
    with running(target, draft=draft) as driver:
        recording = RecordingDrafter(driver.roster._drafters[name], stop_after=2)
        driver.roster._drafters[name] = recording
        answers = driver.run(
            *(ask([5, 6, 7 + slot], mode=name, max_draft_tokens=6, max_tokens=40) for slot in range(num_slots))
        )
    for slot, answer in enumerate(answers):
        assert answer.token_ids == follow(next_token, 7 + slot, 40)
        assert answer.speculation.accepted == answer.speculation.drafted > 20
    assert max(recording.limits) == 6
    assert max(len(each) for each in recording.drafts) == 2
