from __future__ import annotations

import json

import pytest

from homespec.client.answer import Answer
from homespec.client.failures import StreamCutError


def chunk(content: str | None = None, finish_reason: str | None = None, **fields: object) -> str:
    return json.dumps({"choices": [{"delta": {"content": content}, "finish_reason": finish_reason}], **fields})


def test_text_and_its_times_come_together() -> None:
    empty, answer = Answer(), Answer()
    assert empty.add(chunk("")) == ""
    assert empty.time_to_first_token_s is None
    assert [answer.add(chunk(text)) for text in ("Hel", "lo")] == ["Hel", "lo"]
    answer.add(chunk(finish_reason="stop"))
    assert (answer.text, answer.finish_reason) == ("Hello", "stop")
    assert answer.time_to_first_token_s is not None
    assert answer.time_to_last_token_s is not None
    assert 0 <= answer.time_to_first_token_s < answer.time_to_last_token_s


def test_what_a_model_says_before_its_answer_counts() -> None:
    answer = Answer()
    answer.add(json.dumps({"choices": [{"delta": {"reasoning_content": "Hm. "}}]}))
    answer.add(chunk("Yes."))
    assert answer.text == "Hm. Yes."
    assert answer.content == "Yes."


def test_thinking_is_told_apart_as_it_comes() -> None:
    answer, was_thinking = Answer(), []
    for delta in ({"reasoning_content": "Hm."}, {}, {"content": "Yes"}, {"content": ""}):
        answer.add(json.dumps({"choices": [{"delta": delta}]}))
        was_thinking.append(answer.is_thinking)
    assert was_thinking == [True, False, False, False]


def test_numbers_of_another_version_are_kept_by_name() -> None:
    answer = Answer()
    answer.add(json.dumps({"choices": [], "timings": {"draft_ms": 1.5}, "speculative": {"new": True}}))
    assert answer.reported == {"draft_ms": 1.5, "new": True}
    assert answer.timings is None
    assert answer.speculation is None


def test_the_first_text_is_that_of_the_first_chunk_that_has_some() -> None:
    answer = Answer()
    for text in ("", "Hel lo", " you"):
        answer.add(chunk(text))
    assert answer.first_text == "Hel lo"


def test_thinking_has_two_names() -> None:
    answer = Answer()
    assert answer.add(json.dumps({"choices": [{"delta": {"reasoning": "Hm. "}}]})) == "Hm. "
    assert answer.is_thinking
    assert answer.content == ""


def test_usage_is_what_the_last_chunk_that_has_it_says() -> None:
    answer = Answer()
    details = {"cached_tokens": 5}
    for usage in (None, {"prompt_tokens": 9, "completion_tokens": 3, "prompt_tokens_details": details}, None, "odd"):
        answer.add(json.dumps({"choices": [], "usage": usage}))
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cached_tokens) == (9, 3, 5)


def test_what_is_no_chunk_is_refused() -> None:
    with pytest.raises(StreamCutError, match="not a chat chunk"):
        Answer().add("hello")
