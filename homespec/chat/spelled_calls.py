"""Calls as a family writes them: for templates that leave them out of the conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from homespec.chat.arguments import Braces, Keywords, Tags
from homespec.chat.tool_format import ToolFormat


def spelled_calls(tool_format: ToolFormat, calls: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """calls: name and arguments of each; numbered from 0 where the family writes numbers."""
    each = [_call(tool_format, at, name, arguments) for at, (name, arguments) in enumerate(calls)]
    return tool_format.opening + tool_format.separator.join(each) + tool_format.closing


def _call(tool_format: ToolFormat, at: int, name: str, arguments: dict[str, Any]) -> str:
    ahead = f"{at}{tool_format.id_end}" if tool_format.id_end else ""
    behind = f"{tool_format.id_mark}{at}" if tool_format.id_mark else ""
    head = tool_format.begin + ahead + name + behind + tool_format.middle
    return head + _arguments(tool_format, arguments) + tool_format.end


def _arguments(tool_format: ToolFormat, arguments: dict[str, Any]) -> str:
    match tool_format.arguments:
        case None:
            return _json(arguments)
        case Tags() as tags:
            return "".join(tags.spelled(name, value) for name, value in arguments.items())
        case Keywords():
            return ", ".join(f"{name}={_keyword_value(value)}" for name, value in arguments.items())
        case Braces(quote):
            return _braced(arguments, quote).removeprefix("{")  # which ends the name


def _keyword_value(value: Any) -> str:
    return repr(value) if isinstance(value, bool) or value is None else _json(value)


def _braced(value: Any, quote: str) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_braced(each, quote)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_braced(each, quote) for each in value) + "]"
    return quote + value + quote if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
