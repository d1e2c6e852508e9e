"""Files of this package with places to fill in, written @name@."""

from __future__ import annotations

from importlib import resources


def template(name: str, **values: str) -> str:
    """The file `templates/NAME`, filled in."""
    text = (resources.files("homespec.service") / "templates" / name).read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"@{key}@", value)
    return text
