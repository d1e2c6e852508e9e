"""One rule for the schemas of answers and of functions: what a schema says of itself goes first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from homespec.engine.guided_schema import WHITESPACE, guided
from homespec.engine.tool_schema import usable
from homespec.errors import RequestError
from homespec.frames import FunctionSpec, ToolUse

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"room": {"type": "string"}}}


def of_function(schema: dict[str, Any]) -> Any:
    function = FunctionSpec("set", json.dumps(schema))
    use, _ = usable(ToolUse("hermes", (function,), required=True, parallel=False))
    return json.loads(use.functions[0].schema)["x-guidance"]


def test_white_space_is_bounded() -> None:
    assert guided(SCHEMA) == {**SCHEMA, "x-guidance": {"whitespace_pattern": WHITESPACE, "lenient": False}}
    assert of_function(SCHEMA)["whitespace_pattern"] == WHITESPACE


def test_what_a_schema_says_of_itself_goes_first() -> None:
    own = {"whitespace_pattern": " ?", "lenient": True}
    assert guided({**SCHEMA, "x-guidance": own}, lenient=False)["x-guidance"] == own
    assert of_function({**SCHEMA, "x-guidance": own}) == own


def test_what_it_may_not_say_is_refused() -> None:
    for own in ("loud", {"volume": 3}):
        with pytest.raises(RequestError, match=r"'set' cannot be followed: .*(invalid type|unknown field)"):
            of_function({**SCHEMA, "x-guidance": own})
