"""Bodies in, objects out: every JSON value becomes a request or a refusal, and every answer has OpenAI's shape."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from homespec.chat.tool_format import Tools
from homespec.chat.tool_formats import HERMES
from homespec.errors import ErrorInfo, RequestError
from homespec.frames import ChatPrompt, Delta, DraftProgress, Finished, Generate, TextPrompt, TokenPrompt
from homespec.link import decode_from_engine, encode
from homespec.status import DraftState, SpeculationReport, Timings
from homespec.wire.chat import ChatRequest
from homespec.wire.chat_shape import ChatShape
from homespec.wire.completion_shape import CompletionShape
from homespec.wire.embeddings import MAX_INPUTS, EmbeddingRequest, OllamaEmbedRequest
from homespec.wire.faults import fault_text, field_path
from homespec.wire.generation import MAX_INT, MAX_STOPS
from homespec.wire.ollama_shape import OllamaShape
from homespec.wire.requests import (
    DEFAULT_COMPLETION_TOKENS,
    CompletionRequest,
    DetokenizeRequest,
    DrafterRequest,
    TokenizeRequest,
)
from homespec.wire.responses import Shape, choice_id, error_body, is_same_request, request_id

HI = [{"role": "user", "content": "Hi"}]

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def bodies(model: type[pydantic.BaseModel], **likely: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Any JSON, but mostly objects that have what is `likely` and something odd in a few of the request's fields."""
    names = st.sampled_from([field.alias or name for name, field in model.model_fields.items()])
    odd = st.dictionaries(names, JSON, max_size=2)
    return JSON | odd | st.builds(lambda base, rest: rest | base, st.fixed_dictionaries(likely), odd)


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"]) | JSON},
        optional={
            "content": JSON
            | st.text()
            | st.lists(st.fixed_dictionaries({"type": st.just("text") | JSON}, optional={"text": st.text() | JSON})),
            "tool_calls": JSON,
            "x": st.integers(),
        },
    ),
    max_size=3,
)
PROMPTS = st.text() | st.lists(st.integers(), max_size=4) | st.lists(st.text() | st.lists(st.integers()), max_size=2)


def chat(**fields: Any) -> Any:
    [frame] = ChatRequest.model_validate({"messages": HI, **fields}).frames("id", partition="")
    return frame


def completion(**fields: Any) -> Any:
    [frame] = CompletionRequest.model_validate(fields).frames("id", partition="")
    return frame


class TestAnyBody:
    """Nothing but a validation error or a refusal comes out: the server knows an answer to those two."""

    @given(bodies(ChatRequest, messages=MESSAGES))
    def test_chat(self, body: Any) -> None:
        self.check(ChatRequest, body)

    @given(bodies(CompletionRequest, prompt=PROMPTS))
    @example({"prompt": [10**30]})
    @example({"prompt": [True]})
    @example({"prompt": [[1], "a"]})
    @example({"prompt": [None]})
    def test_completion(self, body: Any) -> None:
        self.check(CompletionRequest, body)

    @given(bodies(EmbeddingRequest, input=PROMPTS))
    @example({"input": [10**30]})
    @example({"input": [True]})
    @example({"input": [[1], "a", []]})
    def test_embeddings(self, body: Any) -> None:
        self.check_embedding(EmbeddingRequest, body)

    @given(bodies(OllamaEmbedRequest, input=PROMPTS))
    def test_ollama_embeddings(self, body: Any) -> None:
        self.check_embedding(OllamaEmbedRequest, body)

    @given(bodies(DrafterRequest))
    def test_drafter(self, body: Any) -> None:
        self.parse(DrafterRequest, body)

    @given(bodies(TokenizeRequest))
    def test_tokenize(self, body: Any) -> None:
        self.parse(TokenizeRequest, body)

    @given(bodies(DetokenizeRequest))
    def test_detokenize(self, body: Any) -> None:
        self.parse(DetokenizeRequest, body)

    def check_embedding(self, model: type[EmbeddingRequest | OllamaEmbedRequest], body: Any) -> None:
        request = self.parse(model, body)
        if request is None:
            return
        try:
            frame = request.frame("id")
        except RequestError:
            return
        encode(frame)
        assert 1 <= len(frame.inputs) <= MAX_INPUTS
        assert all(frame.inputs)

    def parse(self, model: type[pydantic.BaseModel], body: Any) -> Any:
        try:
            return model.model_validate(body)
        except pydantic.ValidationError:
            return None

    def check(self, model: type[ChatRequest | CompletionRequest], body: Any) -> None:
        request = self.parse(model, body)
        if request is None:
            return
        frames = self.frames(request)
        if isinstance(frames, ErrorInfo):
            assert 400 <= frames.status < 500
            assert frames.param
            return
        assert len({frame.request_id for frame in frames}) == request.n
        for frame in frames:
            if self.fits(frame):
                assert msgspec.msgpack.decode(msgspec.msgpack.encode(frame), type=type(frame)) == frame

    def frames(self, request: Any) -> list[Generate] | ErrorInfo:
        try:
            return list(request.frames("id", partition=""))
        except RequestError as refusal:
            return refusal.info

    def fits(self, frame: Any) -> bool:
        """Integers inside messages and prompts may be too large; the supervisor refuses those."""
        try:
            encode(frame)
        except OverflowError:
            return False
        return True


class TestFields:
    def test_defaults(self) -> None:
        frame = chat()
        assert frame.max_tokens is None
        assert (frame.sampling.temperature, frame.sampling.top_k, frame.sampling.top_p) == (0.8, 40, 0.95)
        assert frame.speculation.mode == "auto"
        assert not frame.stream
        assert completion(prompt="a").max_tokens == DEFAULT_COMPLETION_TOKENS

    @pytest.mark.parametrize("model", [ChatRequest, CompletionRequest])
    def test_null_is_absent(self, model: type[ChatRequest | CompletionRequest]) -> None:
        nulls: dict[str, Any] = dict.fromkeys(model.model_fields)
        given_nulls = model.model_validate(nulls | {"messages": HI, "seed": 1}).frames("id", partition="")
        assert given_nulls == model.model_validate({"messages": HI, "seed": 1}).frames("id", partition="")

    @pytest.mark.parametrize("fields", [{}, {"seed": None}, {"seed": -1}])
    def test_a_seed_is_drawn_when_none_is_given(self, fields: dict[str, Any]) -> None:
        assert chat(**fields).sampling.seed != chat(**fields).sampling.seed

    @pytest.mark.parametrize("seed", [0, -2, 2**64, -(10**100)])
    def test_any_seed_crosses(self, seed: int) -> None:
        frame = chat(seed=seed)
        assert 0 <= frame.sampling.seed <= MAX_INT
        assert frame == chat(seed=seed)

    @pytest.mark.parametrize(
        ("fields", "limit"),
        [
            ({}, None),
            ({"max_tokens": -1}, None),
            ({"max_tokens": 7}, 7),
            ({"max_completion_tokens": 5}, 5),
            ({"max_completion_tokens": 5, "max_tokens": 3}, 3),
            ({"max_completion_tokens": 3, "max_tokens": 5}, 3),
            ({"max_completion_tokens": -1, "max_tokens": 5}, 5),
            ({"max_tokens": MAX_INT}, MAX_INT),
        ],
    )
    def test_token_limits(self, fields: dict[str, int], limit: int | None) -> None:
        assert chat(**fields).max_tokens == limit

    @pytest.mark.parametrize("fields", [{"max_tokens": MAX_INT + 1}, {"top_k": 10**30}, {"repeat_last_n": 10**30}])
    def test_what_does_not_cross_is_refused(self, fields: dict[str, int]) -> None:
        with pytest.raises(pydantic.ValidationError):
            chat(**fields)

    @pytest.mark.parametrize(
        ("stop", "expected"),
        [
            (None, ()),
            ("a", ("a",)),
            ("", ()),
            ([], ()),
            (["a", "", "b"], ("a", "b")),
            (["x"] * MAX_STOPS, ("x",) * MAX_STOPS),
        ],
    )
    def test_stops(self, stop: Any, expected: tuple[str, ...]) -> None:
        assert chat(stop=stop).stop == expected

    def test_each_choice_has_a_seed_of_its_own(self) -> None:
        frames = ChatRequest.model_validate({"messages": HI, "n": 3, "seed": MAX_INT}).frames("id", partition="p")
        assert [frame.sampling.seed for frame in frames] == [MAX_INT, 0, 1]
        assert [frame.request_id for frame in frames] == ["id", "id-1", "id-2"]
        assert {frame.partition for frame in frames} == {"p"}

    def test_a_salt_parts_what_is_kept(self) -> None:
        frames = [
            ChatRequest.model_validate({"messages": HI, "cache_salt": salt}).frames("id", partition=key)[0]
            for key in ("p", "q")
            for salt in (None, "a", "b")
        ]
        assert len({frame.partition for frame in frames}) == 6
        assert frames[0].partition == "p"
        assert [frame.salted for frame in frames] == [False, True, True] * 2

    def test_logit_bias(self) -> None:
        assert chat(logit_bias={"5": 1, "-3": 0.5}).sampling.logit_bias == {5: 1.0, -3: 0.5}

    @pytest.mark.parametrize(
        ("prompt", "expected"),
        [
            ("a", TextPrompt("a")),
            (["a"], TextPrompt("a")),
            ([1, 2], TokenPrompt([1, 2])),
            ([[1, 2]], TokenPrompt([1, 2])),
            ([], TokenPrompt([])),
            (None, TextPrompt("")),
        ],
    )
    def test_prompts(self, prompt: Any, expected: Any) -> None:
        assert completion(prompt=prompt).prompt == expected


class TestMessages:
    def plain(self, *messages: Any) -> list[dict[str, Any]]:
        prompt = ChatRequest.model_validate({"messages": list(messages)}).frames("id", partition="")[0].prompt
        assert isinstance(prompt, ChatPrompt)
        return prompt.messages

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            ("a", "a"),
            ("", ""),
            ([], ""),
            ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
            ([{"type": "input_text", "text": "a"}, {"type": "output_text", "text": "b"}], "ab"),
            ([{"type": "refusal", "refusal": "no"}], "no"),
        ],
    )
    @pytest.mark.parametrize("role", ["system", "user", "assistant", "function"])
    def test_content(self, role: str, content: Any, text: str) -> None:
        assert self.plain({"role": role, "content": content}) == [{"role": role, "content": text}]

    @pytest.mark.parametrize("turn", [{"role": "assistant"}, {"role": "assistant", "content": None}])
    def test_an_assistant_may_say_nothing(self, turn: dict[str, Any]) -> None:
        assert self.plain(turn) == [{"role": "assistant", "content": ""}]

    def test_what_else_is_in_a_message_stays(self) -> None:
        turn = {"role": "assistant", "content": None, "thinking": "hm", "name": None, "refusal": None}
        assert self.plain(turn) == [{"role": "assistant", "content": "", "thinking": "hm"}]

    def test_developers_are_the_system(self) -> None:
        assert self.plain({"role": "developer", "content": "a"}) == [{"role": "system", "content": "a"}]

    @pytest.mark.parametrize(
        ("content", "param"),
        [
            (None, "messages[0].content"),
            (5, "messages[0].content"),
            ({"type": "text", "text": "a"}, "messages[0].content"),
            ([{"type": "text", "text": "a"}, {"type": "image_url"}], "messages[0].content[1]"),
            ([{"type": "text"}], "messages[0].content[0]"),
            ([{"type": "text", "text": None}], "messages[0].content[0]"),
            ([{"type": ["text"]}], "messages[0].content[0]"),
            ([None], "messages[0].content[0]"),
            (["a"], "messages[0].content[0]"),
        ],
    )
    def test_what_cannot_be_read_is_named(self, content: Any, param: str) -> None:
        with pytest.raises(RequestError) as caught:
            self.plain({"role": "user", "content": content})
        assert caught.value.info.param == param
        assert caught.value.info.status == 400


def finished(text: str = "", reason: str = "stop") -> Finished:
    return Finished(
        request_id="id",
        text=text,
        finish_reason=reason,
        num_prompt_tokens=7,
        num_cached_tokens=3,
        num_output_tokens=2,
        timings=Timings(4, 1.0, 4.0, 2, 10.0, 100.0, 3, 1, 1),
        speculation=SpeculationReport(DraftState.READY, "ready", {"ngram": 1}, 1, 1, 1, 2.0, [1.0], "strict"),
    )


class TestShape:
    def test_whole_chat(self) -> None:
        body = ChatShape("m").whole([finished("hello")])
        assert body["object"] == "chat.completion"
        assert body["model"] == "m"
        [choice] = body["choices"]
        assert choice["index"] == 0
        assert choice["message"] == {"role": "assistant", "content": "hello", "refusal": None}
        assert choice["finish_reason"] == "stop"
        assert body["usage"] == {
            "prompt_tokens": 7,
            "completion_tokens": 2,
            "total_tokens": 9,
            "prompt_tokens_details": {"cached_tokens": 3},
        }
        assert body["timings"]["draft_n_accepted"] == 1
        assert body["speculative"]["drafters"] == {"ngram": 1}
        json.dumps(body)

    def test_whole_completion(self) -> None:
        body = CompletionShape("m").whole([finished("a"), finished("b", "length")])
        assert body["object"] == "text_completion"
        assert [choice["text"] for choice in body["choices"]] == ["a", "b"]
        assert [choice["index"] for choice in body["choices"]] == [0, 1]
        assert [choice["finish_reason"] for choice in body["choices"]] == ["stop", "length"]
        # The prompt is counted once, the answers all.
        assert body["usage"]["prompt_tokens"] == 7
        assert body["usage"]["completion_tokens"] == 4

    @pytest.mark.parametrize(
        ("shape", "name"),
        [
            (ChatShape("m", include_usage=True), "chat.completion.chunk"),
            (CompletionShape("m", include_usage=True), "text_completion"),
        ],
    )
    def test_chunks(self, shape: Shape, name: str) -> None:
        shape.opening(0)
        chunks = [*shape.delta(0, Delta("id", "a", 1)), *shape.ending(0, finished()), *shape.closing([finished()])]
        assert {chunk["object"] for chunk in chunks} == {name}
        assert {chunk["id"] for chunk in chunks} == {shape.id}
        first, last, usage = chunks
        assert first["choices"][0]["finish_reason"] is None
        assert last["choices"][0]["finish_reason"] == "stop"
        assert "usage" not in first
        assert "usage" not in last
        assert last["timings"]["predicted_n"] == 2
        assert usage["choices"] == []
        assert usage["usage"]["total_tokens"] == 9

    def test_only_chats_begin_with_a_role(self) -> None:
        [first] = ChatShape("m").opening(0)
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert CompletionShape("m").opening(0) == []

    def test_usage_is_sent_when_asked_for_only(self) -> None:
        assert ChatShape("m").closing([finished()]) == CompletionShape("m").closing([finished()]) == []

    @pytest.mark.parametrize("cuts", [(), (3,), (9,), (2, 5, 11), tuple(range(1, 22))])
    def test_drafted_text_is_told_of_the_text_as_it_is_sent(self, cuts: tuple[int, ...]) -> None:
        text = "<think>\nab cd</think> efg"
        drafted = {at for at, char in enumerate(text) if char in "b df<"}
        shape = ChatShape("m", reasoning=("<think>", "</think>"), with_spans=True)
        shape.opening(0)
        chunks = []
        for start, end in itertools.pairwise((0, *cuts, len(text))):
            spans = [(at, at + 1) for at in range(start, end) if at in drafted]
            chunks += shape.delta(0, Delta("id", text[start:end], 1, progress=DraftProgress(end, start, spans)))
        *chunks, last = [*chunks, *shape.ending(0, finished())]
        marked = ""
        for chunk in chunks:
            delta = chunk["choices"][0]["delta"]
            piece = delta.get("content") or delta["reasoning_content"]
            told = chunk["speculative"]
            assert told.keys() == {"rounds", "accepted", "spans"}
            marked += "".join(piece[start:end] for start, end in told["spans"])
        assert marked == "b df"
        assert "spans" not in last["speculative"]

    def test_drafted_text_of_a_completion(self) -> None:
        shape = CompletionShape("m", with_spans=True)
        deltas = [
            Delta("id", "abc", 3, progress=DraftProgress(2, 1, [(1, 2)])),
            Delta("id", "de", 5, progress=DraftProgress(3, 3, [(3, 5)])),
        ]
        told = [shape.delta(0, delta)[0]["speculative"] for delta in deltas]
        assert told == [
            {"rounds": 2, "accepted": 1, "spans": [[1, 2]]},
            {"rounds": 3, "accepted": 3, "spans": [[0, 2]]},
        ]

    @pytest.mark.parametrize("shape", [ChatShape("m"), CompletionShape("m")])
    def test_who_does_not_ask_for_drafted_text_sees_nothing_new(self, shape: Shape) -> None:
        shape.opening(0)
        [chunk] = shape.delta(0, Delta("id", "a", 1))
        assert "speculative" not in chunk

    def test_ids_are_new(self) -> None:
        assert len({request_id("x") for _ in range(100)}) == 100


def test_frames_survive_the_crossing() -> None:
    assert decode_from_engine(encode(finished("hello"))[4:]) == finished("hello")


def test_error_body() -> None:
    info = ErrorInfo("no", 400, param="n", code="c", retry_after_s=5)
    assert error_body(info) == {"error": {"message": "no", "type": "invalid_request_error", "param": "n", "code": "c"}}


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ((), ""),
        (("n",), "n"),
        (("messages", 0, "content"), "messages[0].content"),
        (("messages", 0, "content", 1), "messages[0].content[1]"),
        ((0, "a"), "[0].a"),
    ],
)
def test_field_path(parts: tuple[Any, ...], path: str) -> None:
    assert field_path(parts) == path


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (-1, "too small, not -1"),
        (1.5, "too small, not 1.5"),
        ("a secret", "too small"),
        (["a"], "too small"),
        (True, "too small"),
    ],
)
def test_a_fault_repeats_numbers_and_no_text(given: Any, text: str) -> None:
    assert fault_text({"msg": "too small", "input": given}) == text


def test_choices_know_their_request() -> None:
    one, other = request_id("cmpl"), request_id("cmpl")
    assert all(is_same_request(choice_id(one, index), one) for index in range(3))
    assert not is_same_request(choice_id(one, 1), choice_id(other, 1))
    assert not is_same_request("cmpl", one)


def test_a_call_that_is_nested_beyond_measure_is_left_out_like_half_of_one() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": ' + "[" * 100_000
    shape = OllamaShape("m", is_chat=True, tools=Tools(HERMES))
    assert "tool_calls" not in shape.whole([finished(text)])["message"]
    ending = OllamaShape("m", is_chat=True, tools=Tools(HERMES)).ending(0, finished(text))
    assert all("tool_calls" not in part["message"] for part in ending)
