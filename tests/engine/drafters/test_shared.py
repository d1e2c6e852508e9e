"""A drafter that attends to the target's own cache: right where it can be, and it never touches that cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from homespec.engine.build import build_drafter
from homespec.engine.drafters.kind import KvShape, read_head
from homespec.errors import DrafterError
from homespec.frames import EngineSettings, SetDrafter
from tests.kits.drafters import RecordingDrafter
from tests.kits.engines import SCRIPTED, ask, running
from tests.kits.gemma_kit import assistant_markov, gemma4_markov, random_assistant, random_gemma4
from tests.kits.gguf_kit import follow
from tests.kits.head_pairs import Golden, stop_in_the_middle
from tests.kits.heads_kit import implied_acceptance
from tests.kits.models import Models

pytestmark = pytest.mark.real

PROMPT = tuple(b"the quick brown fox")


@pytest.fixture
def target(models: Models) -> Path:
    return models.write("gemma4", gemma4_markov(models.chain))


@pytest.fixture
def random_pair(models: Models) -> tuple[Path, Path]:
    target = models.write("random-gemma4", random_gemma4(1))
    return target, models.write("random-assistant", random_assistant(2))


def test_the_header_tells_what_it_reads_and_what_it_gets(models: Models, target: Path) -> None:
    head = read_head(models.write("assistant", assistant_markov(models.chain)), target)
    shapes = frozenset({KvShape(True, 2, 16, 16), KvShape(False, 2, 16, 16)})
    assert (head.kind, head.n_embd_out, head.reads_kv, head.target_kv) == ("mtp", 64, shapes, shapes)


@pytest.mark.parametrize("limit", [1, 4])
@pytest.mark.parametrize("num_slots", [1, 4])
def test_an_exact_one_is_always_accepted(models: Models, target: Path, limit: int, num_slots: int) -> None:
    with running(target, draft=models.write("assistant", assistant_markov(models.chain)), threads=1) as driver:
        assert driver.drafter_status("mtp").state == "ready"
        assert driver.roster.memory.kv_bytes == 0
        requests = [
            ask(PROMPT[: 5 + slot], mode="mtp", max_draft_tokens=limit, max_tokens=60) for slot in range(num_slots)
        ]
        for slot, answer in enumerate(driver.run(*requests)):
            assert answer.token_ids == follow(models.chain, PROMPT[4 + slot], 60)
            assert answer.speculation.accepted == answer.speculation.drafted > 0


def test_one_that_is_wrong_on_three_of_ten_is_accepted_as_that_implies(models: Models, target: Path) -> None:
    truth = [*PROMPT, *follow(models.chain, PROMPT[-1], 120)]
    implied = implied_acceptance(
        truth, len(PROMPT), 3, lambda n, count: follow(models.wrong_chain, truth[n - 1], count)
    )
    head = models.write("assistant-30", assistant_markov(models.wrong_chain))
    request: dict[str, Any] = {"mode": "mtp", "max_draft_tokens": 3, "max_tokens": 120}
    with running(target, draft=head, threads=1, n_ctx=1024) as driver:
        alone = driver.run(ask(PROMPT, partition="alone", **request))
        together = driver.run(*(ask(PROMPT, partition=f"{slot}", **request) for slot in range(4)))
    for answer in (*alone, *together):
        assert answer.sequence.token_ids == truth
        assert (answer.speculation.drafted, answer.speculation.accepted) == implied


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_random_weights_change_no_answer_and_draft_in_company_what_they_draft_alone(
    random_pair: tuple[Path, Path], temperature: float
) -> None:
    """The state before the last token and the target's cache both matter to what they draft."""
    target, head = random_pair
    request: dict[str, Any] = {"max_tokens": 80, "temperature": temperature, "ignore_eos": True}
    seen = []
    for others in (0, 3):
        with running(target, draft=head, threads=1) as driver:
            [plain] = driver.run(ask(PROMPT, **request))
            recording = RecordingDrafter(driver.roster._drafters["mtp"])
            driver.roster._drafters["mtp"] = recording
            company = [ask(PROMPT[slot + 1 :], partition=f"{slot}", **request) for slot in range(others)]
            drafted, *_ = driver.run(ask(PROMPT, mode="mtp", max_draft_tokens=3, **request), *company)
            assert drafted.token_ids == plain.token_ids
            assert drafted.speculation.drafted > 100
            seen.append(recording.confidences)
    assert seen[0] == pytest.approx(seen[1], abs=1e-3)


def test_nothing_is_left_of_requests_that_were_cancelled_stopped_preempted_or_swapped(
    random_pair: tuple[Path, Path],
) -> None:
    target, head = random_pair
    with running(target, draft=head, threads=1, n_ctx=256, slots=3, cached_prefixes=1) as driver:
        trial = Golden(driver, "mtp")
        cancelled = driver.submit(ask(b"cancelled" * 5, mode="mtp", max_tokens=200, ignore_eos=True))
        for _ in range(6):
            driver.scheduler.step()
        driver.scheduler.cancel(cancelled.id)
        assert trial.holds()
        stop_in_the_middle(driver, "mtp")
        assert trial.holds()
        preemptions = driver.scheduler.counters.preemptions
        driver.run(*(ask([70 + index] * 60, mode="mtp", max_tokens=80, ignore_eos=True) for index in range(3)))
        assert driver.scheduler.counters.preemptions > preemptions
        assert trial.holds()
        sequence = driver.submit(ask(b"swapped" * 4, mode="auto", max_tokens=40, ignore_eos=True))
        for switch in ("off", "auto"):
            for _ in range(6):
                driver.scheduler.step()
            driver.scheduler.obey(SetDrafter(switch))
        driver.load_drafter()
        driver.drain()
        assert driver.answer(sequence).speculation.drafters["mtp"] > 5
        assert trial.holds()


def test_the_targets_cache_is_as_it_was_without_it(random_pair: tuple[Path, Path]) -> None:
    """A later request that reuses the prefix would see any cell that a draft had left behind."""
    target, head = random_pair
    with running(target, draft=head, threads=1) as driver:
        [first] = driver.run(ask(PROMPT, mode="mtp", max_draft_tokens=4, max_tokens=40))
        longer = [*PROMPT, *first.token_ids, *b" and so on"]
        [again] = driver.run(ask(longer, max_tokens=40))
        assert again.finished.num_cached_tokens > len(PROMPT)
        driver.forget_prefixes()
        [fresh] = driver.run(ask(longer, max_tokens=40))
        assert again.token_ids == fresh.token_ids
        assert not driver.scheduler._slots.repair()


def test_one_that_expects_another_cache_is_refused_with_the_numbers(models: Models, target: Path) -> None:
    model = assistant_markov(models.chain)
    odd = models.write("odd-assistant", replace(model, shape=replace(model.shape, n_head_kv=1)))
    with running(target, draft=SCRIPTED) as driver:
        settings = EngineSettings(model_path=str(target), model_id="m", draft_path=str(odd))
        with pytest.raises(DrafterError, match="it reads full 1 x 16/16, sliding 1 x 16/16 of the target's KV cache"):
            build_drafter(settings, driver.context)
