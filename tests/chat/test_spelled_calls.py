"""Calls that homespec writes out itself are those that it would read."""

from __future__ import annotations

from typing import Any

import pytest

from homespec.chat.spelled_calls import spelled_calls
from homespec.chat.tool_format import ToolFormat
from tests.chat.test_answer_parser import ROWS, read, spelled

CALLS: list[tuple[str, dict[str, Any]]] = [("get_weather", {"city": "Paris", "days": [1, {"n": None}]}), ("f", {})]


@pytest.mark.parametrize("tool_format", ROWS, ids=lambda each: each.name)
def test_they_are_spelled_as_the_family_does(tool_format: ToolFormat) -> None:
    text = spelled_calls(tool_format, CALLS)
    assert text == spelled(tool_format, CALLS).replace("city='Paris'", 'city="Paris"')
    assert [call.name for call in read([text], None, tool_format).calls] == ["get_weather", "f"]
