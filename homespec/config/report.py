"""The settings in effect, as text for people that is a configuration file too, and as JSON."""

from __future__ import annotations

import json
from typing import Any

from homespec.config import Layers, Settings


def as_text(layers: Layers, *, with_origin: bool = False) -> str:
    """Every effective value as lines of TOML, on request with its origin. A secret shows as asterisks."""
    lines = []
    for key in Settings.model_fields:
        value = getattr(layers.settings, key)
        line = f"# {key} is not set" if value is None else f"{key} = {toml(value)}"
        lines.append(f"{line:44}  # {layers.origins[key]}" if with_origin else line)
    return "\n".join(lines)


def as_json(layers: Layers) -> str:
    """An object by key: value, layer, and where in it."""
    return json.dumps(
        {
            key: {"value": _plain(getattr(layers.settings, key)), "layer": origin.layer, "where": origin.where}
            for key, origin in layers.origins.items()
        },
        indent=2,
    )


def toml(value: Any) -> str:
    """One value as TOML writes it, on one line."""
    match value:
        case bool() | int() | float():
            return str(value).lower()
        case tuple():
            return f"[{', '.join(map(toml, value))}]"
        case dict():
            return f"{{{', '.join(f'{json.dumps(key)} = {toml(each)}' for key, each in value.items())}}}"
        case _:
            return json.dumps(str(value), ensure_ascii=False)


def _plain(value: Any) -> Any:
    """One value as JSON takes it."""
    match value:
        case None | bool() | int() | float():
            return value
        case tuple():
            return [_plain(each) for each in value]
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case _:
            return str(value)
