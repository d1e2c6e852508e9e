from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.bench.options import Options, parse_sweep, split_names
from homespec.bench.sides import Side, sides_of
from homespec.errors import ConfigError
from homespec.stats import MAX_DRAFT_TOKENS


@given(st.sets(st.integers(0, MAX_DRAFT_TOKENS), min_size=2), st.sampled_from(["", "D="]))
def test_a_sweep_is_a_list_in_rising_order(limits: set[int], prefix: str) -> None:
    assert parse_sweep(prefix + ",".join(map(str, limits))) == tuple(sorted(limits))


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("D=1,x", ["'D=1,x'", "D=0,1,2"]),
        ("", ["''"]),
        ("1,17", ["17", "16"]),
        ("-1", ["-1", "0"]),
        ("D=0", ["compares nothing"]),
    ],
)
def test_a_bad_sweep_is_refused(text: str, fragments: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_sweep(text)
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_names_are_split_at_commas() -> None:
    assert split_names(" qa, math,") == ("qa", "math")
    assert split_names(None) == ()


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (Options("u", sweep=(1, 2), max_draft_tokens=3), "--max-draft-tokens"),
        (Options("u", max_draft_tokens=17), "17"),
        (Options("u", against_model="big"), "--against URL"),
        (Options("u", serve=("model.gguf", "--draft", "off")), "--draft auto"),
        (Options("u", drafters=("auto", "auto")), "auto, auto"),
        (Options("u", html=Path("/nowhere/page.html")), "/nowhere/page.html"),
        (Options("u", json="/nowhere/page.json"), "/nowhere/page.json"),
        (Options("u", html=Path("/")), "/"),
    ],
)
def test_what_would_fail_after_minutes_fails_at_once(options: Options, fragment: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options.check()
    assert fragment in str(caught.value)


def test_sides_of_a_sweep() -> None:
    assert sides_of(["ngram"], None, (0, 2), against=True) == (
        Side("plain", "off"),
        Side("ngram D=2", "ngram", 2, swept=True),
        Side("auto", "auto"),
        Side("other server"),
    )


def test_sides_and_what_they_ask_for() -> None:
    plain, auto, again = sides_of(["auto", "off"], 3, (), against=False)
    assert (plain.speculative(), auto.speculative()) == ({"mode": "off"}, {"mode": "auto", "max_draft_tokens": 3})
    assert (again.name, again.drafter) == ("plain again", "off")
