"""The one place where text and tokens are cut."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.engine.sampling.coupled import CoupledSampler
from homespec.engine.sequence import Sequence
from homespec.errors import ErrorInfo
from homespec.frames import Speculation, TokenLogprob
from tests.kits.engines import ask

EOS = 999


def sequence(prompt: int = 3, n_ctx: int = 100, **fields: Any) -> Sequence:
    request = ask([1] * prompt, **fields)
    return Sequence(request, [1] * prompt, n_ctx=n_ctx, sampler=CoupledSampler(request.sampling))


def push(target: Sequence, text: str, token: int = 5) -> bool:
    logprob = TokenLogprob(token, -1.0, [])
    return target.push(token, text.encode(), is_end=token == EOS, logprob=logprob)


def test_a_stop_beats_the_length_when_one_token_meets_both() -> None:
    target = sequence(max_tokens=2, stop=("b",))
    assert not push(target, "a")
    assert push(target, "b")
    assert target.finish_reason == "stop"
    assert target.text.text == "a"


def test_the_length_beats_a_stop_that_would_come_later() -> None:
    target = sequence(max_tokens=1, stop=("ab",))
    assert push(target, "a")
    assert (target.finish_reason, target.text.text) == ("length", "a")


def test_an_end_token_is_not_part_of_the_answer() -> None:
    target = sequence(max_tokens=5)
    push(target, "a")
    assert push(target, "", EOS)
    assert (target.finish_reason, target.num_output_tokens) == ("stop", 1)


def test_an_end_token_that_is_to_be_ignored_counts_like_any_other() -> None:
    target = sequence(max_tokens=2, ignore_eos=True)
    assert not push(target, "", EOS)
    assert push(target, "a")
    assert (target.finish_reason, target.num_output_tokens) == ("length", 2)


@pytest.mark.parametrize(("prompt", "max_tokens", "room"), [(3, 50, 50), (3, None, 97), (95, 50, 5), (99, None, 1)])
def test_the_context_bounds_the_answer(prompt: int, max_tokens: int | None, room: int) -> None:
    target = sequence(prompt, max_tokens=max_tokens)
    assert target.max_output_tokens == room
    pushed = 0
    while not push(target, "x"):
        pushed += 1
    assert pushed + 1 == target.num_output_tokens == room


def test_tokens_that_only_spell_the_stop_are_taken_back_with_all_that_belongs_to_them() -> None:
    target = sequence(stop=("<end>",))
    for piece in ("a", "b<", "en", "d"):
        assert not push(target, piece)
    assert push(target, ">!")
    assert target.text.text == "ab"
    # The token "b<" is part text, part stop: it stays.
    assert target.num_output_tokens == len(target.logprobs) == 2


@given(
    st.lists(st.text(alphabet="ab<é", max_size=3), min_size=1, max_size=12),
    st.lists(st.text(alphabet="ab<", min_size=1, max_size=3), max_size=2),
    st.integers(1, 12),
)
def test_whatever_is_taken_step_by_step_is_in_the_end_one_entry_per_token(
    pieces: list[str], stop: list[str], max_tokens: int
) -> None:
    target = sequence(max_tokens=max_tokens, stop=tuple(stop), stream=True)
    shown = ""
    taken: list[TokenLogprob] = []
    for piece in pieces:
        ended = push(target, piece)
        shown += target.text.take()
        taken += target.take_logprobs()
        if ended:
            break
    else:
        target.finish("length")
        shown += target.text.take()
        taken += target.take_logprobs()
    assert shown == target.text.text
    assert len(taken) == target.num_output_tokens <= max_tokens
    assert "".join(pieces).startswith(shown)


def test_before_the_first_round_there_are_no_rates() -> None:
    target = sequence()
    status = target.status()
    assert (status.phase, status.slot) == ("waiting", None)
    assert status.tokens_per_second is None
    assert status.acceptance_rate is None
    assert target.acceptance_length is None
    assert target.timings().predicted_per_second is None


def test_rounds_are_counted_by_drafter() -> None:
    target = sequence()
    for drafter, drafted, accepted in (("draft", 4, 2), (None, 0, 0), ("ngram", 2, 2), ("draft", 0, 0)):
        target.add_round(drafter, drafted, accepted)
    assert dict(target.drafted_rounds) == {"draft": 1, "ngram": 1}
    assert target.num_rounds == 4
    assert target.acceptance_length == 1 + 4 / 4
    assert (target.last_drafter, target.last_draft_length) == (None, 0)


def test_a_failure_ends_it_with_the_error() -> None:
    target = sequence()
    target.fail(ErrorInfo("constraint failed", 400))
    assert target.finished
    assert target.error is not None
    assert target.finish_reason == "error"


def drafting(stop: tuple[str, ...] = (), *, spans: bool = True) -> Sequence:
    asked = msgspec.structs.replace(ask([1], stop=stop), speculation=Speculation(spans=spans))
    return Sequence(asked, [1], n_ctx=100, sampler=CoupledSampler(asked.sampling))


def push_bytes(target: Sequence, *pieces: tuple[bytes, bool]) -> None:
    for piece, from_draft in pieces:
        target.push(5, piece, is_end=False, from_draft=from_draft)


def taken(target: Sequence) -> list[str]:
    """The drafted stretches of the text that is ready now."""
    text = target.text.take()
    begin = target.text.num_taken - len(text)
    progress = target.take_progress(text)
    assert progress is not None
    return [text[start - begin : end - begin] for start, end in progress.spans]


def test_drafted_text_is_told_with_the_text() -> None:
    target = drafting()
    push_bytes(target, (b"ab", False), (b"cd", True), (b"ef", True), (b"g", False))
    assert taken(target) == ["cdef"]
    push_bytes(target, (b"h", True))
    assert taken(target) == ["h"]
    assert taken(target) == []


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    target = drafting()
    first, second = "é".encode()[:1], "é".encode()[1:]
    push_bytes(target, (first, True), (second, False), (first, False), (second, True))
    assert taken(target) == ["é"]


def test_drafted_text_that_is_held_back_is_told_later_and_what_a_stop_takes_never() -> None:
    target = drafting(stop=("bcd",))
    push_bytes(target, (b"ab", True), (b"c", False))
    assert taken(target) == ["a"]
    push_bytes(target, (b"x", False))
    assert taken(target) == ["b"]
    push_bytes(target, (b"b", True), (b"c", True), (b"d", True))
    assert target.finished
    assert taken(target) == []


def test_drafted_text_is_not_told_unasked() -> None:
    target = drafting(spans=False)
    push_bytes(target, (b"ab", True))
    assert target.take_progress(target.text.take()) is None
