"""Admission, batching, cancellation, preemption, reuse: many requests in one engine answer as each would alone."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from homespec.engine.drafters.drafter import Draft, DraftRequest
from homespec.errors import DecodeError
from homespec.frames import Delta, Finished, Frame, Generate, SetDrafter, Snapshot
from tests.kits.drafters import ScriptedDrafter, continuation_of
from tests.kits.engines import SCRIPTED, Answer, Driver, ask, chat, running
from tests.kits.gguf_kit import follow
from tests.kits.models import Models

pytestmark = pytest.mark.real

GOLDEN = b"The golden request"


@pytest.fixture
def driver(models: Models) -> Iterator[Driver]:
    """A model that never says the same twice, and a drafter that is hardly ever right about it."""
    with running(models.random, draft=models.other_random, n_ctx=512) as engine:
        yield engine


def golden(driver: Driver) -> list[int]:
    """Tokens of the fixed request, in a partition of its own."""
    [answer] = driver.run(ask(GOLDEN, max_tokens=24, partition="golden"))
    return answer.token_ids


# Many at once


def test_eight_streams_with_a_word_each_answer_as_they_do_alone(models: Models) -> None:
    words = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron")
    prompts = [f"Say the code word. The code word is {word}. The code word is" for word in words]
    with running(models.demo, slots=8, n_ctx=2048) as engine:
        together = engine.run(*(ask(prompt, max_tokens=12) for prompt in prompts))
    with running(models.demo, slots=1, n_ctx=2048) as engine:
        alone = [engine.run(ask(prompt, max_tokens=12))[0] for prompt in prompts]
    assert [answer.token_ids for answer in together] == [answer.token_ids for answer in alone]
    for word, answer in zip(words, together, strict=True):
        assert word in answer.text
        assert not any(other in answer.text for other in words if other != word)


@pytest.mark.parametrize("num_streams", [2, 4])
def test_streams_that_draft_together_are_accepted_as_often_as_one_alone(models: Models, num_streams: int) -> None:
    starts = [bytes([start]) for start in (10, 60, 130, 200)[:num_streams]]
    with running(models.markov, draft=models.markov_drafter_30, n_ctx=1024) as engine:
        alone = [engine.run(ask(start, mode="draft", max_tokens=100, partition="alone"))[0] for start in starts]
        together = engine.run(*(ask(start, mode="draft", max_tokens=100, partition="together") for start in starts))
    for start, one, other in zip(starts, alone, together, strict=True):
        assert other.token_ids == one.token_ids == follow(models.chain, start[0], 100)
        assert other.speculation.accepted == one.speculation.accepted
        assert other.speculation.drafted == one.speculation.drafted


def test_requests_with_different_drafters_share_a_round(driver: Driver) -> None:
    prompts = [b"one", b"another", b"a third", b"abcabcabcabcabc"]
    plain = [driver.run(ask(prompt, max_tokens=60, partition="plain"))[0] for prompt in prompts]
    mixed = driver.run(
        *(
            ask(prompt, mode=mode, max_draft_tokens=limit, max_tokens=60, partition="mixed")
            for prompt, mode, limit in zip(prompts, ("draft", "off", "draft", "ngram"), (7, None, 1, 4), strict=True)
        )
    )
    assert [answer.token_ids for answer in mixed] == [answer.token_ids for answer in plain]


def test_only_as_many_requests_run_as_there_are_slots_and_they_run_in_order(models: Models) -> None:
    with running(models.markov, slots=2, n_ctx=512) as engine:
        sequences = [engine.submit(ask([9, index + 1], max_tokens=4 + index)) for index in range(5)]
        engine.scheduler.step()
        assert [sequence.phase for sequence in sequences] == ["decode", "prefill", "waiting", "waiting", "waiting"]
        engine.drain()
        finished = [frame.request_id for frame in engine.frames if isinstance(frame, Finished)]
        assert finished == [sequence.id for sequence in sequences]
        assert engine.scheduler.counters.requests == 5
        assert engine.scheduler.counters.output_tokens == sum(range(4, 9))


@pytest.mark.parametrize("mode", ["off", "draft"])
def test_a_long_prompt_is_read_in_chunks_while_other_streams_go_on(models: Models, mode: str) -> None:
    with running(models.random, draft=models.random, n_ctx=1024, prefill_chunk=64) as engine:
        stream = engine.submit(ask(b"short", max_tokens=100, mode=mode, stream=True, ignore_eos=True))
        engine.scheduler.step()
        reader = engine.submit(ask([7] * 600, max_tokens=4, mode=mode))
        lengths = []
        while reader.num_computed_tokens < 600:
            before = stream.num_output_tokens
            engine.scheduler.step()
            lengths.append(reader.num_computed_tokens)
            assert stream.num_output_tokens > before
        assert lengths == [min(64 * (step + 1), 600) for step in range(len(lengths))]
        engine.drain()
        assert engine.answer(stream).finished.num_output_tokens == 100


def test_streamed_text_is_the_text_of_the_whole_answer(models: Models) -> None:
    with running(models.letters, n_ctx=512) as engine:
        whole, streamed = engine.run(ask("a", max_tokens=40), ask("a", max_tokens=40, stream=True))
    assert streamed.text == whole.text == "bcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNO"
    assert whole.deltas == []
    assert streamed.finished.text == ""
    assert [delta.num_tokens for delta in streamed.deltas] == list(range(1, 41))


def test_an_emoji_arrives_in_one_piece_though_it_takes_four_tokens(models: Models) -> None:
    says = tuple("ab😀c".encode())
    with running(models.saying("emoji", says), draft=SCRIPTED, n_ctx=512) as engine:
        engine.use_drafter(ScriptedDrafter(continuation_of(says * 6)))
        plain, drafted = (
            engine.run(ask("a", mode=mode, max_draft_tokens=3, max_tokens=28, stream=True))[0]
            for mode in ("off", "draft")
        )
    assert plain.text == drafted.text == "b😀ca" * 4
    assert not any("\ufffd" in delta.text for answer in (plain, drafted) for delta in answer.deltas)


def test_an_answer_that_ends_inside_a_character_ends_with_a_replacement_mark(models: Models) -> None:
    with running(models.saying("emoji", tuple("ab😀c".encode())), n_ctx=512) as engine:
        [answer] = engine.run(ask("a", max_tokens=3, stream=True))
    assert answer.text == "b\ufffd"
    assert answer.finished.num_output_tokens == 3


# Cancel


@pytest.mark.parametrize("mode", ["off", "draft", "ngram"])
def test_a_cancelled_answer_frees_its_slot_and_leaves_nothing_behind(driver: Driver, mode: str) -> None:
    expected = golden(driver)
    driver.forget_prefixes()
    for _ in range(10):
        sequence = driver.submit(ask(b"cancel me", mode=mode, max_tokens=None))
        for _ in range(5):
            driver.scheduler.step()
        driver.scheduler.cancel(sequence.id)
        assert not driver.scheduler.busy
        assert not any(slot.busy for slot in driver.scheduler._slots.slots)
        assert not any(isinstance(frame, Finished) and frame.request_id == sequence.id for frame in driver.frames)
    assert golden(driver) == expected


def test_cancelling_during_a_long_prompt_takes_effect_before_its_next_chunk(models: Models) -> None:
    with running(models.random, n_ctx=1024, prefill_chunk=64) as engine:
        sequence = engine.submit(ask([7] * 900, max_tokens=4))
        engine.scheduler.step()
        engine.scheduler.cancel(sequence.id)
        assert not engine.scheduler.busy
        assert sequence.num_computed_tokens == 64
        # What was read is kept for the next request, and no more than that.
        [again] = engine.run(ask([7] * 900, max_tokens=4))
        assert again.finished.num_cached_tokens == 64


def test_a_waiting_request_can_be_cancelled_and_an_unknown_one_is_ignored(models: Models) -> None:
    with running(models.markov, slots=1) as engine:
        running_one, waiting_one = (engine.submit(ask([3], max_tokens=20)) for _ in range(2))
        engine.scheduler.step()
        engine.scheduler.cancel(waiting_one.id)
        engine.scheduler.cancel("never heard of it")
        engine.drain()
        engine.scheduler.cancel(running_one.id)
        assert [f.request_id for f in engine.frames if isinstance(f, Finished)] == [running_one.id]


def test_a_neighbour_is_untouched_by_a_cancelled_request(driver: Driver) -> None:
    [alone] = driver.run(ask(b"neighbour", max_tokens=60, partition="alone"))
    neighbour = driver.submit(ask(b"neighbour", mode="draft", max_tokens=60))
    victim = driver.submit(ask(b"victim", mode="draft", max_tokens=60))
    for _ in range(8):
        driver.scheduler.step()
    driver.scheduler.cancel(victim.id)
    driver.drain()
    assert driver.answer(neighbour).token_ids == alone.token_ids


# KV memory


def test_sequences_that_together_exceed_the_context_are_preempted_and_answer_as_alone(models: Models) -> None:
    starts = [10, 60, 130, 200]
    with running(models.markov, draft=models.markov_drafter, n_ctx=256) as engine:
        answers = engine.run(
            *(
                ask([start], mode=mode, max_tokens=150, stream=True)
                for start, mode in zip(starts, ("draft", "off", "ngram", "draft"), strict=True)
            )
        )
        assert engine.scheduler.counters.preemptions > 0
    for start, answer in zip(starts, answers, strict=True):
        assert answer.token_ids == follow(models.chain, start, 150)
        assert answer.finished.num_output_tokens == 150
        assert answer.deltas[-1].num_tokens == 150


def test_a_preempted_answer_goes_on_where_it_was(driver: Driver) -> None:
    """With a model for which a lost or doubled token would change all that follows."""

    def request(prompt: bytes, partition: str) -> Generate:
        return ask(prompt, max_tokens=220, temperature=0.9, partition=partition, stream=True, ignore_eos=True)

    prompts = [b"first of three", b"second of three", b"third of three"]
    alone = [driver.run(request(prompt, "alone"))[0] for prompt in prompts]
    driver.forget_prefixes()
    answers = driver.run(*(request(prompt, "together") for prompt in prompts))
    assert driver.scheduler.counters.preemptions > 0
    assert [answer.token_ids for answer in answers] == [answer.token_ids for answer in alone]
    assert [answer.text for answer in answers] == [answer.text for answer in alone]


def test_kept_prefixes_give_way_before_anyone_is_preempted(models: Models) -> None:
    with running(models.markov, n_ctx=256) as engine:
        engine.run(*(ask([start], max_tokens=55) for start in (1, 2, 3, 4)))
        [answer] = engine.run(ask([9] * 100, max_tokens=100))
        assert answer.finished.num_output_tokens == 100
        assert engine.scheduler.counters.preemptions == 0


def test_one_request_may_use_the_whole_context_whatever_the_number_of_slots(models: Models) -> None:
    for slots in (1, 2, 4):
        with running(models.markov, n_ctx=512, slots=slots) as engine:
            assert engine.engine.status.n_ctx == 512
            [answer] = engine.run(ask([9] * 500, max_tokens=None))
            assert answer.finished.num_output_tokens == 12


def test_the_books_agree_with_the_cache_after_whatever_happened(driver: Driver) -> None:
    """Answers, stops inside a block, a cancelled request, preemption: nothing is ever there to repair."""
    driver.run(*(ask(prompt, mode="draft", max_tokens=150) for prompt in (b"one", b"two", b"three", b"four")))
    driver.run(ask(b"stop", mode="draft", stop=("\ufffd",), max_tokens=80))
    cancelled = driver.submit(ask(b"cancel me", mode="draft", max_tokens=None))
    for _ in range(5):
        driver.scheduler.step()
    driver.scheduler.cancel(cancelled.id)
    assert driver.scheduler._slots.repair() == []


# Prefix reuse


def test_a_second_identical_request_reuses_the_prompt_and_says_so(driver: Driver) -> None:
    prompt = list(b"a prompt that is asked twice")
    first, second = (driver.run(ask(prompt))[0] for _ in range(2))
    assert first.finished.num_cached_tokens == 0
    assert second.finished.num_cached_tokens == len(prompt) - 1
    assert second.finished.timings.cache_n == len(prompt) - 1
    assert second.finished.timings.prompt_n == 1
    assert second.token_ids == first.token_ids
    assert driver.scheduler.counters.cached_tokens == len(prompt) - 1


def test_prompts_that_begin_alike_are_read_once_also_when_they_come_together(driver: Driver) -> None:
    prompt = list(range(200))

    def requests(partition: str) -> list[Generate]:
        return [ask(prompt, seed=seed, temperature=1.0, partition=partition, ignore_eos=True) for seed in (1, 2, 3)]

    alone = [driver.run(each)[0].token_ids for each in requests("alone")]
    driver.forget_prefixes()
    before = driver.scheduler.counters.prompt_tokens
    answers = driver.run(*requests("together"), ask(prompt, partition="other"), ask(prompt, reuse=False))
    assert [answer.token_ids for answer in answers[:3]] == alone
    assert [answer.finished.num_cached_tokens for answer in answers] == [0, 199, 199, 0, 0]
    assert driver.scheduler.counters.prompt_tokens - before == 3 * 200


def test_who_waits_for_a_prompt_to_be_read_holds_nobody_else_up(driver: Driver) -> None:
    reading, alike, other = (driver.submit(ask(prompt)) for prompt in ([1] * 500, [1] * 500, [2]))
    driver.scheduler.step()
    assert [sequence.phase for sequence in (reading, alike, other)] == ["prefill", "waiting", "decode"]
    driver.scheduler.cancel(reading.id)
    driver.drain()
    assert driver.answer(alike).finished.num_output_tokens == 12


def test_another_partition_reuses_nothing(driver: Driver) -> None:
    answers = [driver.run(ask(b"a secret prompt", partition=partition))[0] for partition in ("", "a", "b", "a")]
    assert [answer.finished.num_cached_tokens for answer in answers] == [0, 0, 0, len(b"a secret prompt") - 1]
    assert len({tuple(answer.token_ids) for answer in answers}) == 1


def test_a_request_may_have_its_whole_prompt_read(driver: Driver) -> None:
    prompt = b"read to the last letter"
    [kept] = driver.run(ask(prompt))
    [read] = driver.run(ask(prompt, reuse=False))
    [again] = driver.run(ask(prompt))
    assert [answer.finished.num_cached_tokens for answer in (kept, read, again)] == [0, 0, len(prompt) - 1]
    assert read.token_ids == kept.token_ids == again.token_ids


def test_the_next_turn_of_a_conversation_reuses_the_answer_too(driver: Driver) -> None:
    [first] = driver.run(ask(b"Hello.", mode="draft", max_tokens=20))
    history = first.sequence.token_ids
    [second] = driver.run(ask([*history, *b" Next?"], mode="draft"))
    [fresh] = driver.run(ask([*history, *b" Next?"], partition="fresh"))
    assert second.finished.num_cached_tokens == len(history) - 1
    assert second.token_ids == fresh.token_ids


def test_a_running_request_shares_its_prompt_and_is_not_disturbed(driver: Driver) -> None:
    prompt = list(b"a long shared beginning, and then ")
    [alone] = driver.run(ask([*prompt, 1], max_tokens=60, partition="alone"))
    first = driver.submit(ask([*prompt, 1], max_tokens=60, mode="draft"))
    for _ in range(10):
        driver.scheduler.step()
    [second] = driver.run(ask([*prompt, 2], max_tokens=60))
    assert second.finished.num_cached_tokens == len(prompt)
    assert driver.answer(first).token_ids == alone.token_ids


def test_greedy_answers_do_not_depend_on_what_was_reused(driver: Driver) -> None:
    prompt = list(b"three times the same request ") * 8
    answers = [driver.run(ask(prompt, max_tokens=60))[0] for _ in range(3)]
    assert [answer.finished.num_cached_tokens > 0 for answer in answers] == [False, True, True]
    assert answers[0].token_ids == answers[1].token_ids == answers[2].token_ids


# Drafters come and go


class Breaking(ScriptedDrafter):
    """Fails in one of its calls, the third time."""

    def __init__(self, method: str, error: Exception) -> None:
        super().__init__(lambda _: [])
        self._method = method
        self._error = error
        self._num_calls = 0

    def begin(self, slot_id: int, source_id: int | None, num_shared: int) -> None:
        self._fail_in("begin")

    def prefill(self, slot_id: int, token_ids: list[int]) -> None:
        self._fail_in("prefill")

    def propose(self, requests: Sequence[DraftRequest]) -> list[Draft]:
        self._fail_in("propose")
        return super().propose(requests)

    def close(self, slot_id: int) -> None:
        self._fail_in("close")

    def _fail_in(self, method: str) -> None:
        self._num_calls += method == self._method
        if self._num_calls == 3:
            raise self._error


@pytest.mark.parametrize("error", [DecodeError("decode went wrong"), ValueError("a bug")], ids=["expected", "bug"])
@pytest.mark.parametrize("method", ["begin", "prefill", "propose", "close"])
def test_a_drafter_that_breaks_is_switched_off_with_the_reason_and_the_answer_stays(
    models: Models, method: str, error: Exception
) -> None:
    with running(models.markov, draft=SCRIPTED, cached_prefixes=0, slots=1) as engine:
        drafter = Breaking(method, error)
        engine.use_drafter(drafter)
        for turn in range(4):
            prompt = [turn + 1] * 20
            [answer] = engine.run(ask(prompt, mode="draft"))
            assert answer.token_ids == follow(models.chain, turn + 1, 32)
        status = engine.drafter_status()
        assert status.state == "off"
        assert str(error) in status.reason
        assert drafter.is_shut_down
        assert str(error) in answer.speculation.reason
        assert answer.speculation.state == "off"
        assert sum(str(error) in event for event in engine.events()) == 1


def test_switching_drafters_in_the_middle_of_an_answer_changes_nothing(driver: Driver) -> None:
    for temperature in (0.0, 0.8):
        [plain] = driver.run(ask(b"switch", max_tokens=80, temperature=temperature, partition="plain"))
        sequence = driver.submit(ask(b"switch", mode="auto", max_tokens=80, temperature=temperature))
        modes = iter(("off", "ngram", "auto", "draft", "off", "auto") * 20)
        while driver.scheduler.busy:
            driver.scheduler.step()
            driver.scheduler.obey(SetDrafter(next(modes)))
            if driver.drafter_status().state == "loading":
                driver.load_drafter()
        assert driver.answer(sequence).token_ids == plain.token_ids
        driver.scheduler.obey(SetDrafter("auto"))
        if driver.drafter_status().state == "loading":
            driver.load_drafter()


def test_a_drafter_that_arrives_late_takes_up_several_long_answers(models: Models) -> None:
    """All at once it has more to catch up with than one batch of it holds."""
    prompts = [[start] * 200 for start in (10, 60, 130, 200)]
    with running(models.markov, draft=SCRIPTED, n_ctx=2048) as engine:
        sequences = [engine.submit(ask(prompt, mode="draft", max_tokens=40)) for prompt in prompts]
        for _ in range(8):
            engine.scheduler.step()
        engine.settings = engine.settings.__class__(
            model_path=str(models.markov), model_id="test", draft_path=str(models.markov_drafter), n_ctx=2048
        )
        engine.load_drafter()
        engine.drain()
        answers = [engine.answer(sequence) for sequence in sequences]
        assert engine.drafter_status().state == "ready"
    for prompt, answer in zip(prompts, answers, strict=True):
        assert answer.token_ids == follow(models.chain, prompt[0], 40)
        assert answer.speculation.accepted > 0


def test_the_same_request_drafts_every_time(models: Models) -> None:
    with running(models.letters, n_ctx=512) as engine:
        prompt = b"abcdefgh abcdefgh abcd"
        answers = [engine.run(ask(prompt, mode="ngram", max_tokens=100))[0] for _ in range(5)]
    assert all(answer.speculation.drafted > 0 for answer in answers)
    assert len({answer.speculation.accepted for answer in answers[1:]}) == 1


def test_repeating_a_request_gives_no_unfair_drafts(driver: Driver) -> None:
    """What was said to another request is not replayed: only the running text is looked up."""
    one, other = b"first first first", b"something else entirely"

    def drafted(*order: bytes) -> list[int]:
        return [driver.run(ask(prompt, mode="ngram", max_tokens=60))[0].speculation.drafted for prompt in order]

    drafted(one, other)  # from now on both prompts are cached, so that every first token comes out of a round
    same = drafted(one, one, one)
    mixed = drafted(one, other, one, other)
    assert same[0] == same[1] == same[2] == mixed[0] == mixed[2]
    assert mixed[1] == mixed[3]


# What is told


def test_a_snapshot_holds_numbers_and_no_text(driver: Driver) -> None:
    secret = "kiwi-secret-kiwi"
    driver.submit(ask(secret, mode="draft", max_tokens=30, stop=("stop-secret",)))
    for _ in range(4):
        driver.scheduler.step()
    snapshot = driver.scheduler.snapshot()
    [request] = snapshot.requests
    assert request.num_prompt_tokens == len(secret)
    assert request.num_output_tokens > 0
    assert request.drafter == "draft"
    assert request.num_draft_tokens > 0
    assert snapshot.kv_total_tokens == 512
    assert len(secret) <= snapshot.kv_used_tokens <= 512
    assert "secret" not in str(snapshot)
    driver.drain()
    assert driver.scheduler.snapshot().requests == ()


def test_the_scheduler_thread_takes_requests_from_others_and_reports_when_done(models: Models) -> None:
    with running(models.markov) as engine:
        done = threading.Event()

        def send(frame: Frame) -> None:
            engine.frames.append(frame)
            if isinstance(frame, Snapshot) and any(isinstance(earlier, Finished) for earlier in engine.frames):
                done.set()

        def run() -> None:
            with suppress(SystemExit):
                engine.scheduler.run()

        engine.scheduler._outbox.send = send
        thread = threading.Thread(target=run)
        thread.start()
        sequence = engine.engine.sequence(ask(b"posted", max_tokens=8))
        engine.scheduler.post(lambda: engine.scheduler.submit(sequence))
        assert done.wait(60)
        engine.scheduler.post(sys.exit)
        thread.join(60)
        assert not thread.is_alive()
        assert engine.answer(sequence).finished.num_output_tokens == 8
        assert engine.scheduler.progress >= 8
        snapshots = [frame.snapshot for frame in engine.frames if isinstance(frame, Snapshot)]
        assert snapshots[-1].requests == ()


def test_text_of_other_requests_is_never_in_a_frame(driver: Driver) -> None:
    answers: list[Answer] = driver.run(*(ask(bytes([65 + index] * 9), stream=True) for index in range(4)))
    for answer in answers:
        assert all(delta.request_id == answer.finished.request_id for delta in answer.deltas)
    num_deltas = sum(isinstance(frame, Delta) for frame in driver.frames)
    assert num_deltas == sum(len(answer.deltas) for answer in answers)


def test_the_same_chat_tokenises_the_same_for_every_drafter(models: Models) -> None:
    text = "literal <|im_start|>system markers<|im_end|> and unusual ids"
    with running(models.demo, draft=models.random_drafter, n_ctx=1024) as engine:
        prompts = [
            engine.engine.prompts.read(ask(chat(text), mode=mode)).token_ids for mode in ("off", "draft", "ngram")
        ]
        assert prompts[0] == prompts[1] == prompts[2]
        # The template's own markers are control tokens, those in the text are text.
        assert prompts[0].count(1) == 3
