"""Constraints on the real model: legal at every row, the same bytes whatever drafts, refused where they must be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import msgspec
import pytest

from homespec.errors import RequestError
from homespec.frames import ChatPrompt, Constraint, Refused
from tests.kits.engines import Driver, ask, chat, running
from tests.kits.models import Models

pytestmark = pytest.mark.real

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "age", "colours"],
    "additionalProperties": False,
}
SCHEMA = Constraint("json_schema", json.dumps(PERSON), "response_format")
QUESTION = chat('Describe Ann as JSON with the keys "name", "age" and "colours".')
COUNT = Constraint("regex", "(one|two|three)( (one|two|three)){3}", "regex")


@pytest.fixture(scope="module")
def engine(models: Models) -> Iterator[Driver]:
    with running(models.demo, draft=models.demo, n_ctx=1024) as driver:
        yield driver


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_answer_fits_the_schema_and_does_not_depend_on_the_drafter(engine: Driver, temperature: float) -> None:
    texts = {}
    for mode in ("off", "ngram", "draft"):
        request = ask(
            QUESTION, mode=mode, max_draft_tokens=8, max_tokens=100, temperature=temperature, constraint=SCHEMA
        )
        [answer] = engine.run(request)
        texts[mode] = answer.text
        assert answer.finished.finish_reason == "stop"
    person = json.loads(texts["off"])
    assert set(person) == {"name", "age", "colours"}
    assert 0 <= person["age"] <= 120
    assert set(person["colours"]) <= {"red", "green", "blue"}
    assert len(set(texts.values())) == 1


def test_forced_tokens_are_drafted_and_accepted_without_a_model(engine: Driver) -> None:
    constraint = Constraint("regex", "The answer to the question is: (yes|no), and that is final\\.", "regex")
    [plain] = engine.run(ask(QUESTION, mode="off", constraint=constraint))
    [drafted] = engine.run(ask(QUESTION, mode="ngram", max_draft_tokens=8, constraint=constraint))
    assert drafted.token_ids == plain.token_ids
    assert drafted.speculation.drafters.get("grammar", 0) > 0
    assert drafted.speculation.rounds < plain.speculation.rounds


def test_the_answer_ends_where_the_constraint_is_complete(engine: Driver) -> None:
    [answer] = engine.run(ask(QUESTION, mode="draft", max_draft_tokens=6, max_tokens=60, constraint=COUNT))
    assert re.fullmatch(COUNT.text, answer.text)
    assert answer.finished.finish_reason == "stop"
    assert answer.finished.num_output_tokens == len(answer.token_ids)


def test_a_grammar_may_be_written_in_gbnf_or_lark(engine: Driver) -> None:
    gbnf = Constraint("grammar", 'root ::= "a" [0-9] [0-9] "b"', "grammar")
    lark = Constraint("grammar", 'start: "a" /[0-9][0-9]/ "b"', "grammar")
    for constraint in (gbnf, lark):
        [answer] = engine.run(ask("Code: ", constraint=constraint))
        assert re.fullmatch("a[0-9]{2}b", answer.text)


@pytest.mark.parametrize(
    ("constraint", "reason"),
    [
        (Constraint("json_schema", '{"type": "foo"}', "response_format"), "foo"),
        (Constraint("json_schema", '{"type": "string", "pattern": "(("}', "response_format"), "pattern|regex"),
        (Constraint("regex", "(((", "regex"), "unclosed group"),
        (Constraint("grammar", "root ::= missing", "grammar"), "missing"),
        (Constraint("regex", "a" * 300_000, "regex"), "262144"),
        (Constraint("regex", "(" * 60_000 + "a" + ")" * 60_000, "regex"), "nest"),
        (Constraint("grammar", "start: " + "(" * 60_000 + '"a"' + ")" * 60_000, "grammar"), "nested"),
        (Constraint("grammar", "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000, "grammar"), "nested too deeply"),
        (Constraint("json_schema", '{"x-guidance": 3}', "response_format"), "guidance|struct|map"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else f"{value.kind} {value.text[:20]}",
)
def test_a_constraint_that_cannot_be_honoured_is_refused_with_the_reason(
    engine: Driver, constraint: Constraint, reason: str
) -> None:
    with pytest.raises(RequestError, match=reason) as caught:
        engine.engine.sequence(ask(QUESTION, constraint=constraint))
    assert caught.value.info.param == constraint.param
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_a_constraint_that_leads_nowhere_ends_with_a_reason_of_one_line(engine: Driver) -> None:
    endless = Constraint("json_schema", '{"$ref": "#"}', "response_format")
    sequence = engine.submit(ask(QUESTION, constraint=endless))
    engine.drain()
    [error] = [f.error for f in engine.frames if isinstance(f, Refused) and f.request_id == sequence.id]
    assert (error.status, error.code, error.param) == (400, "constraint_failed", "response_format")
    assert "\n" not in error.message


def test_a_grammar_cannot_break_out_of_what_is_put_around_it(engine: Driver) -> None:
    """Text that is no grammar by itself, and makes one together with the rules for thinking."""
    broken = Constraint("grammar", 'start: "a"\n}) | (%lark {\nstart: "b"', "grammar")
    thinking = ChatPrompt(chat("hi"), markers=("<think>", "</think>"), reasoning=("<think>", "</think>"))
    with pytest.raises(RequestError, match="cannot be honoured"):
        engine.engine.sequence(msgspec.structs.replace(ask("", constraint=broken), prompt=thinking))


def test_a_drafter_cannot_put_an_illegal_token_through(engine: Driver) -> None:
    [plain] = engine.run(ask(QUESTION, mode="off", max_tokens=60, constraint=COUNT))
    [drafted] = engine.run(ask(QUESTION, mode="ngram", max_draft_tokens=8, max_tokens=60, constraint=COUNT))
    assert drafted.text == plain.text


def test_a_constraint_begins_in_the_middle_of_a_block_behind_the_thinking(models: Models) -> None:
    thinking = ChatPrompt(chat("hi"), markers=("<think>", "</think>"), reasoning=("<think>", "</think>"))
    constraint = Constraint("regex", "c[^d]", "regex")
    with running(models.thinker, draft=models.thinker) as driver:
        requests = [
            msgspec.structs.replace(ask("", mode=mode, max_draft_tokens=8, constraint=constraint), prompt=thinking)
            for mode in ("off", "draft")
        ]
        [[plain], [drafted]] = [driver.run(request) for request in requests]
    assert plain.text.startswith("<think>ab</think>c")
    assert not plain.text.endswith("d")
    assert drafted.token_ids == plain.token_ids
    assert drafted.speculation.accepted == len("<ab>c")
    assert drafted.speculation.rounds == 1


def test_a_failing_constraint_ends_its_own_request_only(engine: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = engine.submit(ask(QUESTION, constraint=COUNT))
    other = engine.submit(ask("Once upon a time", max_tokens=5))
    assert failing.grammar is not None
    monkeypatch.setattr(failing.grammar, "allowed", _refuse)
    engine.drain()
    assert [
        frame.error.code for frame in engine.frames if isinstance(frame, Refused) and frame.request_id == failing.id
    ] == ["constraint_failed"]
    assert len(engine.answer(other).token_ids) == 5


def _refuse() -> None:
    raise RequestError("the constraint cannot be followed any further", code="constraint_failed")
