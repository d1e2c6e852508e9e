"""Tools and tool_choice of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from pydantic import ConfigDict, Field

from homespec.chat.tool_formats import HERMES
from homespec.errors import RequestError
from homespec.frames import FunctionSpec, ToolUse
from homespec.status import ChatFormat
from homespec.wire.base import Wire, looks_like

MAX_TOOLS = 128
MAX_SCHEMA_CHARS = 64 * 1024
_NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
_NAME = r"^[A-Za-z0-9_.:/-]{1,128}$"


class Function(Wire):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    name: str = Field(pattern=_NAME)
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False


class Tool(Wire):
    type: Literal["function"] = "function"
    function: Function

    def described(self) -> dict[str, Any]:
        """As templates expect it."""
        function = self.function
        parameters = function.parameters or {"type": "object", "properties": {}}
        plain = {"name": function.name, "description": function.description or "", "parameters": parameters}
        return {"type": "function", "function": plain}


class NamedChoice(Wire):
    """A tool_choice that is no word, as the document has it."""

    type: Any = None
    """`function` or `allowed_tools`."""
    function: Any = None
    name: Any = None
    """Of the function, beside `type`: as /v1/responses has it."""
    allowed_tools: Any = None
    mode: Any = None
    tools: Any = None


AskedChoice = Annotated[Any, looks_like(Literal["none", "auto", "required"] | NamedChoice | None)]


class Choice:
    """What tool_choice asks for. Raises RequestError for anything that is not understood."""

    def __init__(self, asked: Any, tools: Sequence[Tool]) -> None:
        names = [tool.function.name for tool in tools]
        self.allowed = names
        self.mode = "auto" if names else "none"
        self.is_single = False
        if asked in ("none", "auto", None):
            self.mode = "none" if asked == "none" else self.mode
            return
        if not names:
            raise RequestError("tool_choice asks for a call, and there are no tools", param="tool_choice")
        if asked == "required":
            self.mode = "required"
            return
        if not isinstance(asked, dict):
            raise RequestError(
                "tool_choice is neither 'none', 'auto', 'required' nor names a function", param="tool_choice"
            )
        if asked.get("type") == "allowed_tools":
            self._take_allowed(asked.get("allowed_tools", asked), names)
            return
        function = asked.get("function", asked)
        self.allowed = [self._known_function(function, names)]
        self.mode, self.is_single = "required", True

    def _take_allowed(self, asked: Any, names: list[str]) -> None:
        mode, tools = (asked.get("mode"), asked.get("tools")) if isinstance(asked, dict) else (None, None)
        if mode not in ("auto", "required") or not isinstance(tools, list) or not tools:
            raise RequestError("tool_choice.allowed_tools needs mode and tools", param="tool_choice")
        functions = [tool.get("function", tool) if isinstance(tool, dict) else {} for tool in tools]
        self.allowed = [self._known_function(function, names) for function in functions]
        self.mode = mode

    @staticmethod
    def _known_function(function: Any, names: list[str]) -> str:
        name = function.get("name") if isinstance(function, dict) else None
        if name not in names:
            raise RequestError(f"tool_choice names {name!r}; the tools are {', '.join(names)}", param="tool_choice")
        return str(name)


def tool_use(
    tools: Sequence[Tool], choice: Choice, template: ChatFormat, *, parallel: bool, answer_schema: str | None
) -> ToolUse:
    """What the engine enforces. Raises RequestError for tools that cannot be used."""
    if len(tools) > MAX_TOOLS:
        raise RequestError(f"tools holds {len(tools)}; at most {MAX_TOOLS} are allowed", param="tools")
    functions: dict[str, FunctionSpec] = {}
    for index, tool in enumerate(tools):
        function = tool.function
        if function.name in functions:
            raise RequestError(f"tools[{index}] has the name of an earlier one, {function.name!r}", param="tools")
        schema = _json(function.parameters or _NO_ARGUMENTS, f"tools[{index}].function.parameters")
        functions[function.name] = FunctionSpec(function.name, schema, function.strict)
    return ToolUse(
        tool_format=template.tool_format or HERMES.name,
        functions=tuple(functions[name] for name in functions if name in choice.allowed),
        required=choice.mode == "required",
        parallel=parallel and not choice.is_single,
        answer_schema=answer_schema,
    )


def _json(value: Any, param: str) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except (OverflowError, RecursionError) as error:
        raise RequestError(f"{param} cannot be used: {error}", param=param) from error
    if len(text) > MAX_SCHEMA_CHARS:
        raise RequestError(f"{param} has {len(text)} characters; at most {MAX_SCHEMA_CHARS} are allowed", param=param)
    return text
