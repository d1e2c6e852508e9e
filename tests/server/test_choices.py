"""Several answers, constrained answers, and how likely the tokens were."""

from __future__ import annotations

import json
import math
from typing import Any

import openai
import pytest

from tests.daemons import GREEDY, Daemon, eventually, text_of

pytestmark = [pytest.mark.process, pytest.mark.real, pytest.mark.usefixtures("unharmed")]

COUNTING = "One, two, three, four,"
QUESTION = [{"role": "user", "content": "Name a colour."}]


@pytest.fixture(scope="module")
def client(demo: Daemon) -> openai.OpenAI:
    return demo.client()


class TestSeveral:
    def test_choice_i_is_what_seed_plus_i_gives(self, demo: Daemon) -> None:
        body = {"prompt": COUNTING, "max_tokens": 6, "temperature": 1.5}
        several = demo.post("/v1/completions", {**body, "n": 3, "seed": 20}).json()
        single = [demo.post("/v1/completions", {**body, "seed": 20 + index}).json() for index in range(3)]

        assert [choice["index"] for choice in several["choices"]] == [0, 1, 2]
        assert [choice["text"] for choice in several["choices"]] == [each["choices"][0]["text"] for each in single]
        usages = [each["usage"] for each in single]
        assert several["usage"]["completion_tokens"] == sum(usage["completion_tokens"] for usage in usages)
        assert several["usage"]["prompt_tokens"] == usages[0]["prompt_tokens"]

    def test_a_stream_carries_all_of_them(self, demo: Daemon) -> None:
        body = {"messages": QUESTION, "max_tokens": 4, "n": 2, "seed": 3, "temperature": 1.5}
        whole = demo.post("/v1/chat/completions", body).json()
        texts, reasons = ["", ""], ["", ""]
        with demo.stream("/v1/chat/completions", {**body, "stream_options": {"include_usage": True}}) as stream:
            for event in stream.events():
                if not event["choices"]:
                    usage = event["usage"]
                    continue
                [choice] = event["choices"]
                texts[choice["index"]] += text_of(event)
                reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
        assert texts == [choice["message"]["content"] for choice in whole["choices"]]
        assert reasons == [choice["finish_reason"] for choice in whole["choices"]]
        assert usage["completion_tokens"] == whole["usage"]["completion_tokens"]

    def test_one_bad_constraint_refuses_all(self, demo: Daemon) -> None:
        body = {"messages": QUESTION, "n": 3, "regex": "(", "stream": True}
        assert demo.post("/v1/chat/completions", body).status_code == 400
        eventually(demo.is_idle, "no choice is left over")


class TestConstraints:
    def test_a_schema_is_kept_to(self, client: openai.OpenAI) -> None:
        schema = {
            "type": "object",
            "properties": {"colour": {"enum": ["red", "green"]}, "count": {"type": "integer", "maximum": 9}},
            "required": ["colour", "count"],
            "additionalProperties": False,
        }
        answer = client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "Name a colour and a number."}],
            response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}},
            max_tokens=60,
            temperature=0,
        )
        value = json.loads(answer.choices[0].message.content or "")
        assert value["colour"] in ("red", "green")
        assert value["count"] <= 9
        assert answer.choices[0].finish_reason == "stop"

    def test_a_schema_may_stand_where_llama_server_has_it(self, demo: Daemon) -> None:
        body = {"messages": QUESTION, "json_schema": {"enum": ["blue", "yellow"]}, "max_tokens": 20, **GREEDY}
        answer = demo.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"]
        assert json.loads(answer) in ("blue", "yellow")

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_regular_expression_is_kept_to(self, demo: Daemon, stream: bool) -> None:
        body = {"messages": QUESTION, "regex": "(blue|yellow)!", "max_tokens": 20, **GREEDY}
        if stream:
            with demo.stream("/v1/chat/completions", body) as answer:
                text = "".join(text_of(event) for event in answer.events())
        else:
            text = demo.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"]
        assert text in ("blue!", "yellow!")


class TestLogprobs:
    def test_chat(self, client: openai.OpenAI) -> None:
        answer = client.chat.completions.create(
            model="default",
            messages=[{"role": "user", "content": "Name a colour."}],
            max_tokens=4,
            temperature=0,
            logprobs=True,
            top_logprobs=2,
        )
        logprobs = answer.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content is not None
        assert answer.usage is not None
        assert len(logprobs.content) == answer.usage.completion_tokens
        assert "".join(entry.token for entry in logprobs.content) == answer.choices[0].message.content
        for entry in logprobs.content:
            first, second = entry.top_logprobs
            assert entry.token == first.token  # greedy takes the likeliest
            assert 0 >= first.logprob >= second.logprob
            assert math.exp(first.logprob) + math.exp(second.logprob) <= 1.0001

    def test_a_character_of_several_tokens_can_be_put_together(self, demo: Daemon) -> None:
        body: dict[str, Any] = {"regex": "a😀b", "max_tokens": 20, **GREEDY}
        answer = demo.post("/v1/chat/completions", {**body, "messages": QUESTION, "logprobs": True}).json()
        entries = answer["choices"][0]["logprobs"]["content"]
        assert any("\ufffd" in entry["token"] for entry in entries)
        assert b"".join(bytes(entry["bytes"]) for entry in entries) == "a😀b".encode()

    @pytest.mark.parametrize("stream", [False, True])
    def test_offsets_are_places_in_the_text(self, demo: Daemon, stream: bool) -> None:
        body: dict[str, Any] = {"prompt": COUNTING, "regex": "a😀b", "logprobs": 0, "max_tokens": 20, **GREEDY}
        if stream:
            with demo.stream("/v1/completions", body) as answer:
                choices = [event["choices"][0] for event in answer.events()]
        else:
            choices = demo.post("/v1/completions", body).json()["choices"]
        found = [each["logprobs"] for each in choices if each["logprobs"]]
        offsets = {
            token: offset for each in found for token, offset in zip(each["tokens"], each["text_offset"], strict=True)
        }
        assert offsets["a"] == 0
        assert offsets["\ufffd"] == 1
        assert offsets["b"] == 2

    def test_a_stream_carries_each_token_once(self, demo: Daemon) -> None:
        body: dict[str, Any] = {"prompt": COUNTING, "max_tokens": 6, "logprobs": 1, **GREEDY}
        whole = demo.post("/v1/completions", body).json()["choices"][0]["logprobs"]
        tokens: list[str] = []
        with demo.stream("/v1/completions", body) as stream:
            for event in stream.events():
                tokens += (event["choices"][0]["logprobs"] or {"tokens": []})["tokens"]
        assert tokens == whole["tokens"]
        assert len(tokens) == 6


def test_echo(demo: Daemon) -> None:
    body = {"prompt": COUNTING, "max_tokens": 3, **GREEDY}
    plain = demo.post("/v1/completions", body).json()
    echoed = demo.post("/v1/completions", {**body, "echo": True}).json()
    assert echoed["choices"][0]["text"] == COUNTING + plain["choices"][0]["text"]
    assert echoed["usage"]["completion_tokens"] == 3
