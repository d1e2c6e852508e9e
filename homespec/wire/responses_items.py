"""The items of a conversation on /v1/responses, as the document has them; `responses_request` reads them one by one."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from homespec.wire.base import Wire
from homespec.wire.messages import RefusalPart, TextPart


class MessageItem(Wire):
    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart | RefusalPart] | None = None


class ReasoningItem(Wire):
    type: Literal["reasoning"]
    content: list[Any] = Field(default_factory=list)


class FunctionCallItem(Wire):
    type: Literal["function_call"]
    call_id: Any = None
    name: str
    arguments: Any = None


class FunctionOutputItem(Wire):
    type: Literal["function_call_output"]
    call_id: str
    """Of an item before this one."""
    output: str | list[TextPart]


class FunctionTool(Wire):
    type: Literal["function"]
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool = False


Items = Annotated[
    list[MessageItem | ReasoningItem | FunctionCallItem | FunctionOutputItem],
    Field(min_length=1),
]
