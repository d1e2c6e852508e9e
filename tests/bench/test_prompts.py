from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from homespec.bench.prompts import PLACEHOLDER, Prompt, load_prompts, parse_prompts, select
from homespec.errors import ConfigError

SPEED_BENCH = (
    "coding",
    "humanities",
    "math",
    "multilingual",
    "qa",
    "rag",
    "reasoning",
    "roleplay",
    "stem",
    "summarization",
    "writing",
)
OURS = ("edit", "copy", "extract", "agent-replay")


@pytest.fixture(scope="module")
def own() -> tuple[Prompt, ...]:
    return load_prompts(None).prompts


def test_our_own_set_has_every_category_of_speed_bench_and_four_more(own: tuple[Prompt, ...]) -> None:
    counts = Counter(prompt.category for prompt in own)
    assert set(counts) == {*SPEED_BENCH, *OURS}
    assert min(counts.values()) >= 12


def test_our_own_set_repeats_nothing(own: tuple[Prompt, ...]) -> None:
    assert len({prompt.question_id for prompt in own}) == len(own)
    turns = [turn for prompt in own for turn in prompt.turns]
    assert len(set(turns)) == len(turns)


def test_our_own_set_has_conversations_and_several_languages(own: tuple[Prompt, ...]) -> None:
    assert {len(prompt.turns) for prompt in own} == {1, 2}
    text = [" ".join(prompt.turns) for prompt in own]
    for letters, least in (("[ñ¿¡]", 8), ("[äöüß]", 8), ("[\u4e00-\u9fff]{4}", 8), ("```", 10)):
        assert sum(bool(re.search(letters, each)) for each in text) >= least, letters


def line(**fields: object) -> bytes:
    return json.dumps({"question_id": "a", "category": "qa", "turns": ["Why?"]} | fields).encode()


def test_other_fields_and_empty_lines_are_skipped_and_numbers_are_ids() -> None:
    data = line(sub_category="x", question_id=7) + b"\n\n" + line(turns=["Who?", "When?"]) + b"\n"
    found = parse_prompts(data, "f")
    assert found.prompts == (Prompt("7", "qa", ("Why?",)), Prompt("a", "qa", ("Who?", "When?")))
    assert found.notes == ()


@pytest.mark.parametrize("indent", [None, 2])
def test_an_array_of_prompts_is_the_same_as_lines(indent: int | None) -> None:
    rows = [json.loads(line()), json.loads(line(question_id=7, turns=["Who?"]))]
    lines = b"\n".join(json.dumps(row).encode() for row in rows)
    array = b"\xef\xbb\xbf\n" + json.dumps(rows, indent=indent).encode() + b"\n"
    assert parse_prompts(array, "f") == parse_prompts(lines, "f")


def test_a_prompt_that_comes_again_is_asked_once_and_that_is_said() -> None:
    data = b"\n".join([line(), line(question_id="b"), line(question_id="c", turns=["Who?"]), line(turns=[" Why?\n"])])
    found = parse_prompts(data, "f")
    assert [prompt.question_id for prompt in found.prompts] == ["a", "c"]
    [note] = found.notes
    for fragment in ("2 prompts of f", "asked once", "'b'", "line 2", "line 1"):
        assert fragment in note


def test_an_id_with_two_meanings_is_refused_with_both_lines() -> None:
    """Trials of a prompt find each other by its id."""
    with pytest.raises(ConfigError) as caught:
        parse_prompts(line() + b"\n\n" + line(question_id="b") + b"\n" + line(turns=["Who?"]), "f")
    for fragment in ("f, line 1 and line 4", "'a'", "id of its own"):
        assert fragment in str(caught.value)


def test_placeholders_for_texts_are_not_asked() -> None:
    empty = line(question_id="b", turns=[f"{PLACEHOLDER} USING SPECDEC_BENCH\n\nAnswer: {{question}}"])
    found = parse_prompts(line() + b"\n" + empty, "f")
    assert [prompt.question_id for prompt in found.prompts] == ["a"]
    [note] = found.notes
    assert "1 prompts of f are placeholders" in note
    assert "prepare.py" in note
    with pytest.raises(ConfigError, match=r"only placeholders \(1\).*prepare\.py"):
        parse_prompts(empty, "f")


@pytest.mark.parametrize(
    ("data", "fragments"),
    [
        pytest.param(line() + b"\n{", ["f, line 2", "question_id"], id="not JSON"),
        pytest.param(b'{"question_id": "a", "category": "qa"}', ["f, line 1", "turns"], id="no turns"),
        pytest.param(line(turns="Why?"), ["f, line 1", "array"], id="turns is text"),
        pytest.param(line(turns=[]), ["f, line 1", "empty"], id="no turn"),
        pytest.param(line(turns=["Why?", " "]), ["f, line 1", "empty"], id="a turn without a word"),
        pytest.param(b"[" + line() + b",{}]", ["f, item 2", "question_id"], id="item without fields"),
        pytest.param(b"[" + line() + b"]" + line(), ["f is no JSON array", "']'"], id="after the array"),
        pytest.param(b"[" + line(), ["f is no JSON array"], id="array cut off"),
        pytest.param(b"[]", ["f holds no prompt"], id="empty array"),
        pytest.param(b'\xff{"a"', ["f, line 1"], id="not UTF-8"),
        pytest.param(b"\n", ["f holds no prompt"], id="empty"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(data: bytes, fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_prompts(data, "f")
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nope\.jsonl cannot be read.*--prompts"):
        load_prompts(tmp_path / "nope.jsonl")


PROMPTS = [Prompt(f"{category}-{index}", category, ("?",)) for index in range(3) for category in ("qa", "math")]


def test_selecting_takes_the_first_of_each_category() -> None:
    assert select(PROMPTS, (), None) == PROMPTS
    assert [prompt.question_id for prompt in select(PROMPTS, (), 1)] == ["qa-0", "math-0"]
    assert [prompt.question_id for prompt in select(PROMPTS, ("math",), 2)] == ["math-0", "math-1"]


def test_an_unknown_category_is_named_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"'maths' is not.*'math'\?; there are: qa, math"):
        select(PROMPTS, ("qa", "maths"), None)
