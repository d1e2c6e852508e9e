"""Which way of writing tool calls a model was taught, for those whose chat template writes no calls itself."""

from __future__ import annotations

from collections.abc import Callable

from homespec.chat.tool_formats import FORMATS


def named_in(template: str) -> str | None:
    """Name of the format that a chat template speaks of; None for none, or for one that is not in the table.

    Words may mislead, so they count only where no rendered call tells (homespec.chat.tool_probe).
    """
    if "<｜tool▁calls▁begin｜>" in template:
        return "deepseek" if "```json" in template else "deepseek_v31"
    if "[TOOL_CALLS]" in template:
        if "[ARGS]" in template:
            return "mistral_args"
        return "mistral_spaced" if "[TOOL_CALLS] [" in template else "mistral"
    if "<invoke name=" in template:
        return "minimax" if "<minimax:tool_call>" in template else None
    if "<arg_key>" in template:
        return "glm_dense" if "</arg_key><arg_value>" in template else "glm"
    if "<parameter=" in template:
        return "seed" if "<seed:tool_call>" in template else "qwen_xml"
    if "<|channel|>commentary" in template and "functions." in template:
        return "harmony"
    if "<|tool_call>call:" in template:
        return "gemma"
    if "<tool_calls>[" in template:
        return "apriel"  # speaks of <tool_call> as well
    if "<tool_call>" in template:
        return "hermes"
    if "<|tool_call|>" in template:
        if "<|/tool_call|>" not in template:
            return "granite"
        return "phi_list" if "<|tool_call|>[" in template else "phi"
    if "<TOOLCALL>" in template:
        return "nemotron"
    if "<function=" in template:
        return "functionary"
    if "<|tool_list_start|>" in template:
        return "lfm2"
    if "<|python_tag|>" in template or ('"parameters": ' in template and "<|start_header_id|>" in template):
        return "llama3"
    return None


def known_by_tokens(has_token: Callable[[str], bool]) -> str | None:
    """Name of the format whose markers a vocabulary holds as tokens; None where it is not a single one.

    One marker alone says little: several families share theirs, or have it from the model that they were made of.
    """
    found = [each.name for each in FORMATS.values() if len(each.markers) > 1 and all(map(has_token, each.markers))]
    return found[0] if len(found) == 1 else None
