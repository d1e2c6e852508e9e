"""Values that a model writes as plain text, as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homespec.chat.values import TEXT_ONLY, as_json

ANY: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("text", "types", "expected"),
    [
        ("5", ANY, 5),
        ("5", TEXT_ONLY, "5"),
        ("5", frozenset({"number", "string"}), 5),
        ("5", frozenset({"boolean", "string"}), "5"),
        ("5", frozenset({"boolean"}), 5),  # it fits nothing, and says what it is
        ("[1, 2]", ANY, [1, 2]),
        ("five", frozenset({"integer"}), "five"),
        ("NaN", ANY, "NaN"),
        ("-Infinity", frozenset({"number"}), "-Infinity"),
        ("[NaN]", ANY, "[NaN]"),
        ("[" * 100_000, ANY, "[" * 100_000),
    ],
)
def test_a_value_is_what_its_schema_allows(text: str, types: frozenset[str], expected: object) -> None:
    assert json.loads(as_json(text, types)) == expected


@given(st.text(), st.frozensets(st.sampled_from(["string", "number", "integer", "boolean", "object", "array", "null"])))
def test_whatever_is_written_is_json_afterwards(text: str, types: frozenset[str]) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(word)

    json.loads(as_json(text, types), parse_constant=refuse)
