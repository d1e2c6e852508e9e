"""A snapshot to give to others: the daemon's numbers and reasons, without where things lie on its disks. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import msgspec

from homespec.status import Status

_PATH = re.compile(r"""(?<![\w.:/~])~?(?:/[^/\s'"`,;()]+){2,}""")
"""An absolute path in a text; not the path of a URL, and not a lone `/status`."""

_FETCHED_FONT = re.compile(r',\s*url\("https?://[^"]*"\)(?:\s*format\("[^"]*"\))?')


def snapshot_json(status: Status) -> bytes:
    """The snapshot as /status has it, with the names of files in the place of their paths."""
    return msgspec.json.format(msgspec.json.encode(without_paths(status)), indent=2)


def without_paths(status: Status) -> Any:
    """The snapshot as plain values. A path tells the name of a user, and how they keep their files."""
    known = {drafter.path for drafter in status.speculation.drafters} if status.speculation else set()
    known |= {status.model.path} if status.model else set()
    # The longest first: one path may begin with another. Spaces in a path are only known from the fields that hold one.
    paths = sorted((path for path in known if path), key=len, reverse=True)

    def shorten(text: str) -> str:
        for path in paths:
            text = text.replace(path, PurePath(path).name)
        return _PATH.sub(lambda found: PurePath(found[0]).name, text)

    return _mapped(msgspec.to_builtins(status), shorten)


def self_contained(svg: str) -> str:
    """A picture that Textual made, without the fonts that it would fetch: viewers take one of their own."""
    return _FETCHED_FONT.sub("", svg)


def file_name(status: Status | None, kind: str) -> str:
    """`homespec-20251129-183000.json`, by the clock of this machine."""
    moment = time.localtime(status.time_unix if status else None)
    return f"homespec-{time.strftime('%Y%m%d-%H%M%S', moment)}.{kind}"


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """The same value with every text in it changed."""
    match value:
        case str():
            return change(value)
        case dict():
            return {key: _mapped(each, change) for key, each in value.items()}
        case list() | tuple():
            return [_mapped(each, change) for each in value]
    return value
