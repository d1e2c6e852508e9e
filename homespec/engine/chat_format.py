"""What a chat template can do, found out by rendering samples with it: templates do not say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from homespec.chat.tool_family import known_by_tokens, named_in
from homespec.chat.tool_formats import HARMONY_REASONING
from homespec.chat.tool_probe import KEY, NAME, VALUE, read_call
from homespec.engine.template import ChatTemplate
from homespec.errors import ModelUnsupported, RequestError
from homespec.folders import expanded
from homespec.status import ChatFormat

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
BUILT_IN = {"chatml": CHATML}

_FAMILIES = {
    "<|im_start|>": "chatml",
    "<|start_header_id|>": "llama3",
    "<start_of_turn>": "gemma",
    "<|turn>": "gemma4",
    "[INST]": "mistral",
    "<｜User｜>": "deepseek",
    "<|start_of_role|>": "granite",
    "<|START_OF_TURN_TOKEN|>": "command-r",
    "<|assistant|>": "phi",
    "<|channel|>": "harmony",
}
"""Marker → family, the most telling first."""
_REASONING = {
    "</think>": ("<think>", "</think>"),
    "[/THINK]": ("[THINK]", "[/THINK]"),
    "</seed:think>": ("<seed:think>", "</seed:think>"),
    "</mm:think>": ("<mm:think>", "</mm:think>"),
    "</think{}>": ("<think:opensource>", "</think:opensource>"),
    "<channel|>": ("<|channel>thought\n", "<channel|>"),
    "<|END_THINKING|>": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "Here are my reasoning steps:": ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),
    "</thinking>": ("<thinking>", "</thinking>"),
}
"""What the template holds → the markers around thinking."""
_STANDARD = frozenset({"messages", "tools", "add_generation_prompt"})
_USER = {"role": "user", "content": "Question-1"}
_TOOL = {
    "type": "function",
    "function": {
        "name": NAME,
        "description": "Probe",
        "parameters": {"type": "object", "properties": {KEY: {"type": "string"}}, "required": [KEY]},
    },
}
_ARGUMENTS = {KEY: VALUE}
_SHOWN: dict[str, Any] = {"tools": [_TOOL], "add_generation_prompt": False}


@dataclass(frozen=True, slots=True)
class _Calls:
    """How the template writes calls."""

    tool_format: str | None
    reason: str
    """Where that was seen, or why there is none."""
    takes_objects: bool = True
    are_written: bool = True
    """False where it leaves them out of a conversation."""


def read_source(setting: str, of_model: str | None) -> tuple[str, str] | None:
    """Text of the template to use and where it comes from; None for a base model without one.

    Raises ModelUnsupported for a name that is neither built in nor a file.
    """
    if setting == "auto":
        return (of_model, "the model file") if of_model else None
    if setting in BUILT_IN:
        return BUILT_IN[setting], "built in"
    try:
        return expanded(setting).read_text(encoding="utf-8"), setting
    except (OSError, UnicodeDecodeError) as error:
        raise ModelUnsupported(
            f"chat_template {setting!r} cannot be read: {error}; name a file, or one of: auto, {', '.join(BUILT_IN)}"
        ) from error


def examine(
    template: ChatTemplate, origin: str, *, has_token: Callable[[str], bool] = lambda text: False
) -> ChatFormat:
    """Render samples and look at what comes out.

    has_token: whether the model's vocabulary holds a text as one token apart from all text.
    """
    source = template.source
    reasoning = _reasoning(source)
    calls = _calls(template, reasoning, has_token)
    return ChatFormat(
        name=next((family for marker, family in _FAMILIES.items() if marker in source), "custom"),
        source=origin,
        tool_format=calls.tool_format,
        tool_format_reason=calls.reason,
        writes_calls=calls.are_written,
        reasoning=reasoning,
        takes_system="Rule-1" in _rendered(template, [{"role": "system", "content": "Rule-1"}, _USER]),
        takes_neighbours="Question-2" in _rendered(template, [_USER, {**_USER, "content": "Question-2"}]),
        takes_objects=calls.takes_objects,
        variables=tuple(sorted(template.variables - _STANDARD)),
    )


def _reasoning(source: str) -> tuple[str, str] | None:
    if HARMONY_REASONING[0] in source:
        return HARMONY_REASONING
    return next((pair for sign, pair in _REASONING.items() if sign in source), None)


def _calls(template: ChatTemplate, reasoning: tuple[str, str] | None, has_token: Callable[[str], bool]) -> _Calls:
    """From a call that the template renders; from its words, or the vocabulary's, only where it renders none."""
    if "tools" not in template.variables or NAME not in _rendered(template, [_USER], tools=[_TOOL]):
        return _Calls(None, "the template describes no tools")
    plain = _rendered(template, [_USER, {"role": "assistant", "content": "Answer-1"}], **_SHOWN)
    renderings = {is_object: _rendered(template, _called(is_object), **_SHOWN) for is_object in (True, False)}
    written = {is_object: read_call(text, plain, reasoning) for is_object, text in renderings.items() if text}
    for is_object, call in written.items():
        if call is not None and call.tool_format is not None:
            return _Calls(call.tool_format, "seen in a call that the template rendered", is_object)
    takes_objects = VALUE in renderings[True]
    for call in written.values():
        if call is not None:
            return _Calls(None, f"the template writes calls in a form that is not known: {call.text}", takes_objects)
    if plain and not written:
        return _Calls(None, "the template refuses calls", takes_objects)
    silent = _Calls(None, "the template writes no calls and names no form", takes_objects, are_written=not plain)
    if named := named_in(template.source):
        return replace(silent, tool_format=named, reason="named in the template, which writes no calls")
    if known := known_by_tokens(has_token):
        return replace(silent, tool_format=known, reason="seen in the vocabulary; the template writes no calls")
    return silent


def _called(is_object: bool) -> list[dict[str, Any]]:
    """A conversation that ends with a call."""
    function = {"name": NAME, "arguments": _ARGUMENTS if is_object else json.dumps(_ARGUMENTS)}
    call = {"id": "abcdefghi", "type": "function", "function": function}
    return [_USER, {"role": "assistant", "content": "", "tool_calls": [call]}]


def _rendered(template: ChatTemplate, messages: list[dict[str, Any]], **options: Any) -> str:
    """Empty when the template refuses."""
    try:
        return template.render(messages, **options)
    except RequestError:
        return ""
