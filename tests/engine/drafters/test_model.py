"""The draft model keeps its own KV cache in step, whatever is accepted, shared, preempted or forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from homespec.engine.build import build_drafter
from homespec.engine.drafters.drafter import DraftRequest
from homespec.engine.drafters.model import ModelDrafter
from homespec.engine.sampling.chain import Logits
from homespec.engine.sampling.sampler import Proposal
from homespec.frames import SetDrafter
from tests.kits.drafters import RecordingDrafter
from tests.kits.engines import Driver, ask, running
from tests.kits.gguf_kit import EOS, byte_vocabulary, follow, random_llama
from tests.kits.models import Models

pytestmark = pytest.mark.real

N_CTX = 256


@pytest.fixture
def drafter(models: Models) -> Iterator[ModelDrafter]:
    """Says the chain of `markov`, on its own."""
    with running(models.markov, draft=models.markov_drafter, n_ctx=N_CTX) as driver:
        yield built(driver)


def built(driver: Driver) -> ModelDrafter:
    drafter = build_drafter(driver.settings, driver.context)
    assert isinstance(drafter, ModelDrafter)
    return drafter


def greedy(logits: Logits, _token_ids: Sequence[int]) -> Proposal:
    return Proposal(int(logits.argmax()))


def propose(drafter: ModelDrafter, *requests: tuple[int, list[int], int]) -> list[list[int]]:
    drafts = drafter.propose([DraftRequest(slot, tokens, count, greedy) for slot, tokens, count in requests])
    return [draft.token_ids for draft in drafts]


def held(drafter: ModelDrafter, slot_id: int) -> int:
    """Tokens in the drafter's cache, checked against its own books."""
    count = drafter._context.kv_length(slot_id)
    assert count == len(drafter._cache[slot_id])
    return count


def test_it_proposes_as_many_tokens_as_allowed(models: Models, drafter: ModelDrafter) -> None:
    for count in (1, 2, 7, 16):
        assert propose(drafter, (0, [5, 6, 7], count)) == [follow(models.chain, 7, count)]


@pytest.mark.parametrize("num_accepted", range(5))
def test_it_goes_on_after_any_number_of_accepted_tokens(
    models: Models, drafter: ModelDrafter, num_accepted: int
) -> None:
    tokens = [5, 6, 7]
    for _ in range(6):
        [draft] = propose(drafter, (0, tokens, 4))
        # The last draft token has not been decoded yet, and is only when everything was accepted.
        assert held(drafter, 0) == len(tokens) + 3
        assert draft == follow(models.chain, tokens[-1], 4)
        tokens = [*tokens, *draft[:num_accepted], 200 + num_accepted]


def test_it_catches_up_after_rounds_without_it(models: Models, drafter: ModelDrafter) -> None:
    tokens = [5, 6, 7]
    propose(drafter, (0, tokens, 4))
    tokens += follow(models.chain, 7, 30)
    assert propose(drafter, (0, tokens, 2)) == [follow(models.chain, tokens[-1], 2)]


def test_a_long_way_behind_it_catches_up_one_chunk_at_a_time(models: Models) -> None:
    with running(models.markov, draft=models.markov_drafter, n_ctx=1024, prefill_chunk=128) as driver:
        drafter = built(driver)
        tokens = [9] * 400
        lengths = []
        for _ in range(5):
            [draft] = drafter.propose([DraftRequest(0, tokens, 2, greedy)])
            lengths.append(held(drafter, 0))
        assert lengths == [128, 256, 384, 401, 401]
        assert draft.token_ids == follow(models.chain, 9, 2)
        assert drafter.propose([DraftRequest(1, tokens, 2, greedy)])[0].reason == "catching up"


def test_reading_the_prompt_along_leaves_nothing_to_catch_up(models: Models) -> None:
    with running(models.markov, draft=models.markov_drafter, n_ctx=1024, prefill_chunk=128) as driver:
        drafter = built(driver)
        tokens = [9] * 400
        for end in (128, 256, 384, 400):
            drafter.prefill(0, tokens[:end])
            assert held(drafter, 0) == end
        assert propose(drafter, (0, [*tokens, 1], 1)) == [follow(models.chain, 1, 1)]


def test_several_sequences_are_drafted_in_one_call(models: Models, drafter: ModelDrafter) -> None:
    drafts = propose(drafter, (0, [1], 3), (2, [4, 5], 1), (1, [9, 9, 9], 6))
    assert drafts == [follow(models.chain, 1, 3), follow(models.chain, 5, 1), follow(models.chain, 9, 6)]


def test_more_than_a_batch_to_catch_up_with_is_spread_over_rounds(models: Models) -> None:
    with running(models.markov, draft=models.markov_drafter, n_ctx=2048) as driver:
        drafter = built(driver)
        requests = [(slot, [slot + 1] * 200, 2) for slot in range(4)]
        assert propose(drafter, *requests) == [follow(models.chain, 1, 2), [], [], []]
        assert propose(drafter, *requests) == [follow(models.chain, slot + 1, 2) for slot in range(4)]


def test_a_shared_prefix_is_shared_in_its_cache_too(models: Models, drafter: ModelDrafter) -> None:
    tokens = [3] * 40
    propose(drafter, (0, tokens, 1))
    drafter.begin(1, 0, 30)
    assert held(drafter, 1) == 30
    assert propose(drafter, (1, [*tokens[:30], 8], 2)) == [follow(models.chain, 8, 2)]
    assert held(drafter, 0) == 40


def test_a_source_that_it_has_not_seen_gives_nothing_and_is_made_up_for(models: Models, drafter: ModelDrafter) -> None:
    drafter.begin(1, 0, 30)
    assert held(drafter, 1) == 0
    assert propose(drafter, (1, [3] * 31, 2)) == [follow(models.chain, 3, 2)]


def test_a_closed_slot_is_empty(drafter: ModelDrafter) -> None:
    propose(drafter, (0, [3] * 40, 1))
    drafter.close(0)
    assert held(drafter, 0) == 0
    drafter.close(0)


def test_when_its_cache_is_full_idle_slots_are_given_up_first(models: Models, drafter: ModelDrafter) -> None:
    for slot in range(4):
        propose(drafter, (slot, [slot + 1] * 60, 1))
    assert propose(drafter, (4, [77] * 100, 3)) == [follow(models.chain, 77, 3)]
    assert held(drafter, 4) == 102
    assert sum(held(drafter, slot) for slot in range(4)) == 0


def test_without_any_room_it_proposes_nothing_and_says_why(drafter: ModelDrafter) -> None:
    drafts = drafter.propose([DraftRequest(slot, [slot + 1] * 200, 2, greedy) for slot in range(3)])
    drafts = drafter.propose([DraftRequest(slot, [slot + 1] * 200, 2, greedy) for slot in range(3)])
    assert [] in [draft.token_ids for draft in drafts]
    assert all(draft.token_ids or draft.reason in ("no room", "catching up") for draft in drafts)


def test_beyond_its_context_it_goes_on_with_what_it_sees(models: Models, drafter: ModelDrafter) -> None:
    tokens = [1] * (N_CTX - 3)
    for _ in range(2):
        propose(drafter, (0, tokens, 2))
    for _ in range(300):
        [draft] = propose(drafter, (0, tokens, 2))
        assert draft == follow(models.chain, tokens[-1], 2)
        assert held(drafter, 0) <= N_CTX
        tokens = [*tokens, draft[0]]


def test_it_stops_at_an_end_token(models: Models, drafter: ModelDrafter) -> None:
    [draft] = drafter.propose([DraftRequest(0, [1], 8, lambda *_: Proposal(EOS))])
    assert draft.token_ids == [EOS]


@pytest.mark.parametrize("more", [-20, 20])
def test_padding_ids_that_only_one_of_the_two_knows_are_never_drafted(models: Models, more: int) -> None:
    size = len(byte_vocabulary().texts)
    padded = byte_vocabulary().padded(20)
    target, draft = (byte_vocabulary(), padded) if more > 0 else (padded, byte_vocabulary())
    paths = [
        models.write(f"{name}{more}", random_llama(vocabulary, seed=6))
        for name, vocabulary in (("padded-target", target), ("padded-draft", draft))
    ]
    seen: list[int] = []

    def look(logits: Logits, _token_ids: Sequence[int]) -> Proposal:
        seen.append(len(logits))
        assert (logits[size:] == -float("inf")).all()
        return greedy(logits, _token_ids)

    with running(paths[0], draft=paths[1], n_ctx=N_CTX) as driver:
        drafter = built(driver)
        drafter.propose([DraftRequest(0, [1, 2, 3], 4, look)])
        assert set(seen) == {driver.engine.vocab.n_vocab}
        answers = [driver.run(ask(b"padded", mode=mode, max_tokens=40))[0] for mode in ("off", "draft")]
        assert answers[0].token_ids == answers[1].token_ids
        assert driver.drafter_status().state == "ready"


def test_memory_is_reported_and_given_back(models: Models) -> None:
    with running(models.markov, draft=models.markov_drafter) as driver:
        assert driver.roster.memory.weights_bytes > 0
        assert driver.roster.memory.kv_bytes > 0
        driver.scheduler.obey(SetDrafter("off"))
        assert driver.roster.memory.total_bytes == 0
        assert driver.drafter_status().state == "off"


def test_after_many_changes_of_slot_the_drafts_are_still_right(models: Models) -> None:
    """Prefixes shared, evicted and preempted, over and over: acceptance tells whether the drafter's cache is sound."""

    def accepted(driver: Driver, prompt: list[int]) -> tuple[int, int]:
        [answer] = driver.run(ask(prompt, mode="draft", max_tokens=30, ignore_eos=True))
        return answer.speculation.accepted, answer.speculation.drafted

    with running(models.random, draft=models.random, n_ctx=N_CTX, cached_prefixes=2, slots=2) as driver:
        for turn in range(12):
            prompt = [65 + turn % 3] * 20 + [turn] * (turn % 5)
            right, drafted = accepted(driver, prompt)
            assert right == drafted > 0
        answers = driver.run(
            *(
                ask([90 + index] * 30, mode="draft", max_tokens=110, ignore_eos=True, partition="together")
                for index in range(3)
            )
        )
        for answer in answers:
            # Near-ties may fall the other way in a drafter's batch of another shape.
            assert answer.speculation.accepted >= 0.9 * answer.speculation.drafted > 0


# A long sequence is seen through a window


@pytest.fixture(params=["f16", "bf16"])
def windowed(models: Models, request: pytest.FixtureRequest) -> Iterator[Driver]:
    """`random` drafts for itself and sees 256 tokens; its keys are turned, or its window decoded again."""
    with running(
        models.random,
        draft=models.random,
        n_ctx=1024,
        draft_window=256,
        draft_kv_type=request.param,
        kv_type=request.param,
        slots=2,
        threads=1,
    ) as driver:
        yield driver


def test_a_window_changes_no_answer_and_still_drafts_well(models: Models, windowed: Driver) -> None:
    [plain] = windowed.run(ask(b"a long answer", max_tokens=600, ignore_eos=True))
    [drafted] = windowed.run(ask(b"a long answer", mode="draft", max_tokens=600, ignore_eos=True))
    assert drafted.token_ids == plain.token_ids
    assert windowed.drafter_status().state == "ready"
    skipped = windowed.scheduler.snapshot().counters.skipped_drafts
    assert skipped.get("catching up", 0) + skipped.get("no room", 0) < 30


def test_after_a_window_has_moved_another_request_starts_clean(models: Models, windowed: Driver) -> None:
    def share(prompt: bytes) -> float:
        [answer] = windowed.run(ask(prompt, mode="draft", max_tokens=60, ignore_eos=True))
        return answer.speculation.accepted / answer.speculation.drafted

    for turn in range(2):
        windowed.run(
            *(ask([70 + turn, stream] * 5, mode="draft", max_tokens=300, ignore_eos=True) for stream in (1, 2))
        )
        assert share(b"golden %d" % turn) >= 0.9


@pytest.mark.parametrize("num_slots", [1, 4])
def test_with_one_slot_and_with_four_a_window_is_right_all_the_time(models: Models, num_slots: int) -> None:
    with running(
        models.markov, draft=models.markov_drafter, n_ctx=4096, draft_window=256, slots=4, threads=1
    ) as driver:
        prompts = [[start] * 300 for start in (5, 60, 130, 200)[:num_slots]]
        answers = driver.run(*(ask(prompt, mode="draft", max_tokens=300) for prompt in prompts))
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.token_ids == follow(models.chain, prompt[-1], 300)
        assert answer.speculation.accepted == answer.speculation.drafted > 200


def test_a_window_bounds_the_memory(models: Models) -> None:
    sizes = []
    for window in (256, None):
        with running(models.markov, draft=models.markov_drafter, n_ctx=4096, draft_window=window, slots=1) as driver:
            sizes.append(driver.roster.memory.kv_bytes)
    assert sizes[0] * 4 == pytest.approx(sizes[1], rel=0.1)  # the model was trained on 1024 tokens


def test_alone_after_others_its_cells_lie_as_in_an_empty_cache(models: Models) -> None:
    """A prefix that was read beside others is kept; the sums of attention, and so the last bits, tell how it lies."""
    prefix, others = [65] * 24, [[70 + index] * 30 for index in range(2)]

    def confidences(*before: list[int]) -> list[float | None]:
        with running(models.demo, draft=models.demo, n_ctx=1024, slots=3, cached_prefixes=0, threads=1) as driver:
            driver.run(*(ask(each, mode="draft", max_tokens=8) for each in (*before, prefix)))
            recording = RecordingDrafter(driver.roster._drafters["draft"])
            driver.roster._drafters["draft"] = recording
            [answer] = driver.run(ask([*prefix, *b"more"], mode="draft", max_tokens=24, ignore_eos=True))
            assert answer.finished.num_cached_tokens >= len(prefix)
            return recording.confidences

    assert confidences(*others) == confidences()
