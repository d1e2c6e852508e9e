"""What a chat template can do, found out by rendering samples with it: templates do not say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from homespec.chat.tool_family import detect
from homespec.chat.tool_format import HARMONY_REASONING
from homespec.engine.template import ChatTemplate
from homespec.errors import ModelUnsupported, RequestError
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
_REASONING = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel>thought\n", "<channel|>"),
)
_STANDARD = frozenset({"messages", "tools", "add_generation_prompt"})
_USER = {"role": "user", "content": "Question-1"}
_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "Probe",
        "parameters": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
    },
}


def read_source(setting: str, of_model: str | None) -> tuple[str, str] | None:
    """Text of the template to use and where it comes from; None for a base model without one.

    Raises ModelUnsupported for a name that is neither built in nor a file.
    """
    if setting == "auto":
        return (of_model, "the model file") if of_model else None
    if setting in BUILT_IN:
        return BUILT_IN[setting], "built in"
    try:
        return Path(setting).read_text(encoding="utf-8"), setting
    except (OSError, UnicodeDecodeError) as error:
        raise ModelUnsupported(
            f"chat_template {setting!r} cannot be read: {error}; name a file, or one of: auto, {', '.join(BUILT_IN)}"
        ) from error


def examine(template: ChatTemplate, origin: str) -> ChatFormat:
    """Render samples and look at what comes out."""
    source = template.source
    tool_format = detect(source) if "tools" in template.variables else None
    if tool_format and "probe_tool" not in _rendered(template, [_USER], tools=[_TOOL]):
        tool_format = None
    return ChatFormat(
        name=next((family for marker, family in _FAMILIES.items() if marker in source), "custom"),
        source=origin,
        tool_format=tool_format,
        reasoning=HARMONY_REASONING
        if HARMONY_REASONING[0] in source
        else next((pair for pair in _REASONING if pair[1] in source), None),
        takes_system="Rule-1" in _rendered(template, [{"role": "system", "content": "Rule-1"}, _USER]),
        takes_neighbours="Question-2" in _rendered(template, [_USER, {**_USER, "content": "Question-2"}]),
        takes_objects="value-1" in _rendered(template, _call({"x": "value-1"}), tools=[_TOOL]),
        variables=tuple(sorted(template.variables - _STANDARD)),
    )


def _call(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": "abcdefghi", "type": "function", "function": {"name": "probe_tool", "arguments": arguments}}
    return [
        _USER,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "42", "tool_call_id": "abcdefghi", "name": "probe_tool"},
    ]


def _rendered(template: ChatTemplate, messages: list[dict[str, Any]], **options: Any) -> str:
    """Empty when the template refuses."""
    try:
        return template.render(messages, **options)
    except RequestError:
        return ""
