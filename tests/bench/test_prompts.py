from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from homespec.bench.prompts import Prompt, load_prompts, parse_prompts, select
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
def own() -> list[Prompt]:
    return load_prompts(None)


def test_our_own_set_has_every_category_of_speed_bench_and_four_more(own: list[Prompt]) -> None:
    counts = Counter(prompt.category for prompt in own)
    assert set(counts) == {*SPEED_BENCH, *OURS}
    assert min(counts.values()) >= 12


def test_our_own_set_repeats_nothing(own: list[Prompt]) -> None:
    assert len({prompt.question_id for prompt in own}) == len(own)
    turns = [turn for prompt in own for turn in prompt.turns]
    assert len(set(turns)) == len(turns)


def test_our_own_set_has_conversations_and_several_languages(own: list[Prompt]) -> None:
    assert {len(prompt.turns) for prompt in own} == {1, 2}
    text = [" ".join(prompt.turns) for prompt in own]
    for letters, least in (("[ñ¿¡]", 8), ("[äöüß]", 8), ("[\u4e00-\u9fff]{4}", 8), ("```", 10)):
        assert sum(bool(re.search(letters, each)) for each in text) >= least, letters


def line(**fields: object) -> bytes:
    return json.dumps({"question_id": "a", "category": "qa", "turns": ["Why?"]} | fields).encode()


def test_other_fields_and_empty_lines_are_skipped_and_numbers_are_ids() -> None:
    data = line(sub_category="x", question_id=7) + b"\n\n" + line(turns=["Who?", "When?"]) + b"\n"
    assert parse_prompts(data, "f") == [Prompt("7", "qa", ("Why?",)), Prompt("a", "qa", ("Who?", "When?"))]


@pytest.mark.parametrize(
    ("data", "fragments"),
    [
        pytest.param(line() + b"\n{", ["f, line 2", "question_id"], id="not JSON"),
        pytest.param(b'{"question_id": "a", "category": "qa"}', ["f, line 1", "turns"], id="no turns"),
        pytest.param(line(turns="Why?"), ["f, line 1", "array"], id="turns is text"),
        pytest.param(line(turns=[]), ["f, line 1", "empty"], id="no turn"),
        pytest.param(line(turns=["Why?", " "]), ["f, line 1", "empty"], id="a turn without a word"),
        pytest.param(line() + b"\n\n" + line(question_id="b"), ["f, line 3", "line 1", "once"], id="twice"),
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
    with pytest.raises(ConfigError, match=r"'maths' is not.*'math'.*qa, math"):
        select(PROMPTS, ("qa", "maths"), None)
