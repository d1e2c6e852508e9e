"""The settings in effect, as text for people that is a configuration file too."""

from __future__ import annotations

import json
from typing import Any

from homespec.config import Layers, Settings


def as_text(layers: Layers) -> str:
    """Every effective value and its origin, as lines of TOML. A secret shows as asterisks."""
    lines = []
    for key in Settings.model_fields:
        value = getattr(layers.settings, key)
        line = f"# {key} is not set" if value is None else f"{key} = {_toml(value)}"
        lines.append(f"{line:44}  # {layers.origins[key]}")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return str(value).lower()
    return json.dumps(list(value)) if isinstance(value, tuple) else json.dumps(str(value), ensure_ascii=False)
