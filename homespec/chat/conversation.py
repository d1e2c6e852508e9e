"""A conversation made fit for a chat template that cannot take it as it is. Every repair is announced."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from homespec.chat.spelled_calls import spelled_calls
from homespec.chat.tool_format import ToolFormat
from homespec.chat.tool_formats import FORMATS, HARMONY, HERMES
from homespec.errors import RequestError
from homespec.status import ChatFormat

Message = dict[str, Any]
_MISTRAL_ID_CHARS = 9
"""Mistral's templates refuse ids of any other length."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the template is given."""

    messages: list[Message]
    tools: list[dict[str, Any]] = field(default_factory=list)
    prefill: str = ""
    notices: tuple[str, ...] = ()
    """Repairs, for the client."""


def prepare(messages: Sequence[Message], tools: Sequence[dict[str, Any]], template: ChatFormat) -> Conversation:
    """`messages` hold plain text. Raises RequestError with the position of a message that cannot be used."""
    check_results(messages)
    history = [_with_calls(message, index, template) for index, message in enumerate(messages)]
    prefill = ""
    if len(history) > 1 and history[-1]["role"] == "assistant" and not history[-1].get("tool_calls"):
        prefill = history.pop()["content"]
    notices = []
    if template.tool_format is None:
        history = [_as_text(message) for message in history]
        if tools:
            history = _described(history, tools)
            notices.append("tools described in the system message")
    elif not template.writes_calls:
        history = [_with_calls_as_text(message, FORMATS[template.tool_format]) for message in history]
    if not template.takes_system and any(message["role"] == "system" for message in history):
        history = _folded(history)
        notices.append("system message folded into the user's")
    if not template.takes_neighbours and (merged := _merged(history)) != history:
        history = merged
        notices.append("neighbouring messages of one role merged")
    native = list(tools) if template.tool_format is not None else []
    return Conversation(history, native, prefill, tuple(notices))


def check_results(messages: Sequence[Message]) -> None:
    """Each result must answer a call that was made before it. Raises RequestError."""
    known: set[str] = set()
    for index, message in enumerate(messages):
        known |= {str(call.get("id")) for call in message.get("tool_calls") or () if isinstance(call, dict)}
        if message["role"] == "tool" and message.get("tool_call_id") not in known:
            param = f"messages[{index}].tool_call_id"
            raise RequestError(
                f"{param} = {message.get('tool_call_id')!r} answers no call before it; send the assistant "
                f"message with its tool_calls first",
                param=param,
            )


def _with_calls(message: Message, index: int, template: ChatFormat) -> Message:
    """Its calls in the shape that the template wants."""
    message = dict(message)
    if message["role"] == "tool" and _wants_short_ids(template):
        message["tool_call_id"] = _mistral_id(str(message["tool_call_id"]))
    calls = message.pop("tool_calls", None)
    if not calls:
        return message
    if template.tool_format == HARMONY.name and message.get("reasoning_content") and not message["content"]:
        message["thinking"] = message["reasoning_content"]  # its name there; beside content the template refuses it
    param = f"messages[{index}].tool_calls"
    if not isinstance(calls, list):
        raise RequestError(f"{param} is not a list", param=param)
    return {**message, "tool_calls": [_call(call, f"{param}[{at}]", template) for at, call in enumerate(calls)]}


def _call(call: Any, param: str, template: ChatFormat) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RequestError(f"{param} is not a call: it needs function.name", param=param)
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except (ValueError, RecursionError):
            arguments = {"arguments": arguments}  # what a model once wrote must not end the conversation
    arguments = {} if arguments is None else arguments
    if not template.takes_objects and template.tool_format is not None and template.writes_calls:
        arguments = json.dumps(arguments, ensure_ascii=False)
    call_id = str(call.get("id"))
    return {
        "id": _mistral_id(call_id) if _wants_short_ids(template) else call_id,
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _wants_short_ids(template: ChatFormat) -> bool:
    return (template.tool_format or "").startswith("mistral")


def _mistral_id(call_id: str) -> str:
    if len(call_id) == _MISTRAL_ID_CHARS and call_id.isalnum():
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:_MISTRAL_ID_CHARS]


def spelled_result(content: str) -> str:
    """What a function gave back, in the words of the user."""
    return f"<tool_response>\n{content}\n</tool_response>"


def _as_text(message: Message) -> Message:
    """Calls and results spelled out, for a template that knows neither."""
    if message["role"] == "tool":
        return {"role": "user", "content": spelled_result(message["content"])}
    return _with_calls_as_text(message, HERMES)


def _with_calls_as_text(message: Message, tool_format: ToolFormat) -> Message:
    """Its calls at the end of what it says."""
    if not (calls := message.get("tool_calls")):
        return message
    functions = [(call["function"]["name"], call["function"]["arguments"]) for call in calls]
    text = spelled_calls(
        tool_format,
        [(name, given if isinstance(given, dict) else {"arguments": given}) for name, given in functions],
    )
    content = f"{message['content']}\n{text}" if message["content"] else text
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": content}


def _described(history: list[Message], tools: Sequence[dict[str, Any]]) -> list[Message]:
    """The tools, and how to call them, at the end of the system message."""
    lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    text = (
        "You may call functions to help with the user's request. They are given as JSON, one a line:\n"
        f"<tools>\n{lines}\n</tools>\n\n"
        "To call one, answer with its name and arguments as JSON between <tool_call> and </tool_call>:\n"
        f"{HERMES.begin}function-name{HERMES.middle}{{}}{HERMES.end}"
    )
    if history and history[0]["role"] == "system":
        first = {**history[0], "content": f"{history[0]['content']}\n\n{text}".strip()}
        return [first, *history[1:]]
    return [{"role": "system", "content": text}, *history]


def _folded(history: list[Message]) -> list[Message]:
    """Each system message at the head of the next message of the user; the last one, if none follows, becomes one."""
    folded: list[Message] = []
    waiting: list[str] = []
    for message in history:
        if message["role"] == "system":
            waiting.append(message["content"])
        elif message["role"] == "user" and waiting:
            folded.append({**message, "content": "\n\n".join([*waiting, message["content"]])})
            waiting = []
        else:
            folded.append(message)
    return [*folded, {"role": "user", "content": "\n\n".join(waiting)}] if waiting else folded


def _merged(history: list[Message]) -> list[Message]:
    merged: list[Message] = []
    for message in history:
        before = merged[-1] if merged else None
        if before and before["role"] == message["role"] and message["role"] in ("user", "assistant", "system"):
            if before.get("tool_calls") or message.get("tool_calls"):
                merged.append(message)
                continue
            content = "\n\n".join(filter(None, (before["content"], message["content"])))
            merged[-1] = {**before, "content": content}
        else:
            merged.append(message)
    return merged
