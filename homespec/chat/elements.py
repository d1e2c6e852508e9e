"""Values as nested elements, as MiniMax M3 writes them: `<a>1</a>` is a member, `<item>1</item>` one of a list.

A mark stands in front of every tag, so that text may hold tags. Nothing tells `5` from `"5"` but the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from homespec.chat.values import TEXT_ONLY, as_json, quoted, types_of

ITEM = "item"
_EMPTY = {"array": "[]", "object": "{}"}


def element_text(value: Any, mark: str) -> str:
    """A value as it stands between its tags; members that are null are left out."""
    if isinstance(value, dict):
        return "".join(element(name, each, mark) for name, each in value.items() if each is not None)
    if isinstance(value, list):
        return "".join(element(ITEM, each, mark) for each in value)
    return value if isinstance(value, str) else json.dumps(value)


def element(name: str, value: Any, mark: str) -> str:
    return f"{mark}<{name}>{element_text(value, mark)}{mark}</{name}>"


def element_json(text: str, schema: Any, mark: str) -> str:
    """JSON of what stands between a value's tags. A tag that is never closed closes with what is around it."""
    root = _Element("")
    path = [root]
    head, *rest = re.split(rf"{re.escape(mark)}<(/?)([^<>]+)>", text)
    root.text = head
    for closes, name, behind in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if not closes:
            path[-1].inner.append(_Element(name))
            path.append(path[-1].inner[-1])
        elif any(each.name == name for each in path[1:]):
            while path.pop().name != name:
                pass
        path[-1].text += behind
    return root.json(schema)


@dataclass(slots=True)
class _Element:
    name: str
    text: str = ""
    inner: list[_Element] = field(default_factory=list)

    def json(self, schema: Any) -> str:
        types = types_of(schema)
        if not self.inner:
            empty = next((_EMPTY[each] for each in _EMPTY if each in types and not types & TEXT_ONLY), None)
            return empty if empty and not self.text.strip() else as_json(self.text, types)
        if "array" in types or ("object" not in types and all(each.name == ITEM for each in self.inner)):
            items = _part(schema, "items")
            return f"[{', '.join(each.json(items) for each in self.inner)}]"
        members = _part(schema, "properties")
        pairs = (f'"{quoted(each.name)}": {each.json(_part(members, each.name))}' for each in self.inner)
        return f"{{{', '.join(pairs)}}}"


def _part(schema: Any, name: str) -> Any:
    return schema.get(name) if isinstance(schema, Mapping) else None
