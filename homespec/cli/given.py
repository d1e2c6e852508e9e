"""Settings from flags."""

from __future__ import annotations

from typing import Any


def given(values: dict[str, Any]) -> dict[str, Any]:
    """What was given. 0 is a value: only what is None, and a switch that is off, was not."""
    found = {name: value for name, value in values.items() if not (value is None or value is False)}
    for name in ("max_draft_tokens", "ctx", "slots", "threads", "gpu_layers", "port"):
        if name in found:
            found[name] = _number_or_word(found[name])
    return found


def _number_or_word(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return text
