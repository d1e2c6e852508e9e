"""Body of POST /v1/responses, turned into a chat. Stateless: the whole conversation comes with every request."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from homespec.errors import RequestError
from homespec.wire.base import Wire, looks_like
from homespec.wire.chat import ChatRequest, Effort
from homespec.wire.faults import validated
from homespec.wire.generation import SpeculativeOptions, Stops, TokenLimit
from homespec.wire.responses_items import FunctionTool, Items
from homespec.wire.tools import AskedChoice

_PASSED_ON = (
    "model",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "stop",
    "stream",
)
_KEEPS_NOTHING = "nothing is kept between requests; send the whole conversation as input"
_NOT_HONOURED = {
    "previous_response_id": _KEEPS_NOTHING,
    "conversation": _KEEPS_NOTHING,
    "prompt": "there are no stored prompts; send its text as instructions or input",
    "background": "no answer is kept to be fetched later; leave it out, and set stream to have it as it comes",
    "top_logprobs": "responses carry no log-probabilities; /v1/chat/completions has them",
}
"""By field: why, and what to do instead."""
_MESSAGE_ROLES = ("system", "developer", "user", "assistant")


class Reasoning(Wire):
    effort: Effort | None = None
    summary: Any = None
    """Accepted: the thinking itself is sent."""


class TextFormat(Wire):
    type: Literal["text", "json_object", "json_schema"] = "text"
    name: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class TextOptions(Wire):
    format: TextFormat = TextFormat()


class ResponsesRequest(Wire):
    """What a stateless server can honour of OpenAI's."""

    model: str | None = None
    input: Annotated[Any, looks_like(str | Items)] = ""
    instructions: str | None = None
    max_output_tokens: TokenLimit = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: Stops | None = None
    stream: bool = False
    tools: Annotated[list[dict[str, Any]], looks_like(list[FunctionTool])] = Field(default_factory=list)
    tool_choice: AskedChoice = None
    parallel_tool_calls: bool = True
    text: TextOptions = TextOptions()
    reasoning: Reasoning = Reasoning()
    top_logprobs: int | None = None
    speculative: SpeculativeOptions | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None
    background: bool = False

    def request(self) -> ChatRequest:
        """Raises RequestError for a field that cannot be honoured."""
        for name, remedy in _NOT_HONOURED.items():
            if getattr(self, name):
                raise RequestError(f"{name} is not supported: {remedy}", param=name)
        if self.speculative is not None and self.speculative.spans:
            param = "speculative.spans"
            raise RequestError(f"{param} is for /v1/chat/completions and /v1/completions; leave it out", param=param)
        body = {name: getattr(self, name) for name in _PASSED_ON}
        body |= {
            "messages": self._messages(),
            "max_tokens": self.max_output_tokens,
            "tools": [_tool(tool, index) for index, tool in enumerate(self.tools)],
            "tool_choice": self.tool_choice,
            "parallel_tool_calls": self.parallel_tool_calls,
            "response_format": self._response_format(),
            "reasoning_effort": self.reasoning.effort,
            "speculative": self.speculative.model_dump() if self.speculative else None,
        }
        return validated(ChatRequest, body, lambda path: as_input(path) or path)

    def echo(self) -> dict[str, Any]:
        """The fields that a response repeats."""
        return {
            "instructions": self.instructions,
            "max_output_tokens": self.max_output_tokens,
            "metadata": self.metadata,
            "parallel_tool_calls": self.parallel_tool_calls,
            "previous_response_id": None,
            "reasoning": {"effort": self.reasoning.effort, "summary": None},
            "store": False,
            "temperature": self.temperature,
            "text": {"format": self.text.format.model_dump(by_alias=True, exclude_none=True)},
            "tool_choice": self.tool_choice or "auto",
            "tools": self.tools,
            "top_p": self.top_p,
            "truncation": "disabled",
        }

    def _response_format(self) -> dict[str, Any]:
        asked = self.text.format
        if asked.type != "json_schema":
            return {"type": asked.type}
        return {"type": "json_schema", "json_schema": {"name": asked.name, "schema": asked.schema_}}

    def _messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        if self.instructions:
            messages.append({"role": "system", "content": self.instructions})
        if isinstance(self.input, str):
            return [*messages, {"role": "user", "content": self.input}]
        if not isinstance(self.input, list) or not self.input:
            raise RequestError("input is neither text nor a list of items", param="input")
        for index, item in enumerate(self.input):
            _add(messages, item, f"input[{index}]")
        return [{key: value for key, value in message.items() if key != "_open"} for message in messages]


def as_input(param: str | None) -> str | None:
    """Where the client can find what is wrong with a field of the chat that was made from its request."""
    for chat_field, field in (("messages", "input"), ("response_format", "text.format")):
        if param is not None and param.startswith(chat_field):
            return field
    return param


def _add(messages: list[dict[str, Any]], item: Any, param: str) -> None:
    """One item of the input; what belongs to one turn of the assistant becomes one message."""
    if not isinstance(item, dict):
        raise RequestError(f"{param} is not an item", param=param)
    match item.get("type", "message"):
        case "message" if item.get("role") in _MESSAGE_ROLES:
            if item["role"] == "assistant":
                _turn(messages)["content"] = item.get("content")
                messages[-1].pop("_open")
            else:
                messages.append({"role": item["role"], "content": item.get("content")})
        case "reasoning":
            _turn(messages)["reasoning_content"] = _reasoning(item.get("content"), f"{param}.content")
        case "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            turn = messages[-1] if messages and messages[-1]["role"] == "assistant" else _turn(messages)
            turn.setdefault("tool_calls", []).append(
                {"id": item.get("call_id"), "type": "function", "function": function}
            )
        case "function_call_output":
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": item.get("output")})
        case kind:
            raise RequestError(f"{param} has type {kind!r} or a role that is not supported", param=param)


def _turn(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The assistant's message that has no text yet, a new one if there is none."""
    if not messages or "_open" not in messages[-1]:
        messages.append({"role": "assistant", "content": None, "_open": True})
    return messages[-1]


def _reasoning(content: Any, param: str) -> str:
    if not isinstance(content, list | None):
        raise RequestError(f"{param} is not a list of parts", param=param)
    texts = (part.get("text") for part in content or () if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


def _tool(tool: dict[str, Any], index: int) -> dict[str, Any]:
    if tool.get("type") != "function":
        raise RequestError(
            f"tools[{index}].type is {tool.get('type')!r}; this server has no tools of its own, send functions",
            param=f"tools[{index}].type",
        )
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: tool[name] for name in names if name in tool}}
