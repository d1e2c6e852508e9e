"""The messages of a conversation, made plain for chat templates."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from homespec.errors import RequestError
from homespec.wire.base import Wire, looks_like


class TextPart(Wire):
    type: Literal["text", "input_text", "output_text"]
    text: str


class RefusalPart(Wire):
    type: Literal["refusal"]
    refusal: str


class CalledFunction(Wire):
    name: str
    arguments: Any = None
    """JSON, or an object."""


class ToolCall(Wire):
    """An earlier call, as the document has it."""

    id: Any = None
    function: CalledFunction


class Message(Wire):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Annotated[Any, looks_like(str | list[TextPart | RefusalPart] | None)] = None
    tool_calls: Annotated[list[Any], looks_like(list[ToolCall])] = Field(default_factory=list)
    tool_call_id: str | None = None
    reasoning_content: str | None = None

    @classmethod
    def _nullable(cls) -> frozenset[str]:
        return frozenset({"content"})


def plain_message(message: Message, index: int) -> dict[str, Any]:
    """A message as templates expect it: content is text, `developer` is `system`."""
    param = f"messages[{index}].content"
    extra = {key: value for key, value in message if key not in ("role", "content") and value not in (None, [])}
    role = "system" if message.role == "developer" else message.role
    if message.content is None and role != "assistant":
        raise RequestError(f"{param} is null; a {role} message needs text", param=param)
    return {"role": role, "content": _plain_content(message.content, param), **extra}


def _plain_content(content: Any, param: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise RequestError(f"{param} is neither text nor a list of parts", param=param)
    return "".join(_plain_part(part, f"{param}[{index}]") for index, part in enumerate(content))


def _plain_part(part: Any, param: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    if kind not in ("text", "input_text", "output_text", "refusal"):
        raise RequestError(f"{param} has type {kind!r}; this model reads text parts only", param=param)
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str):
        raise RequestError(f"{param} has no text", param=param)
    return text
