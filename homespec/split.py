"""Models in several files: what the files are called, and which belong together. Nothing is read.

Names are `NAME-00001-of-00003.gguf` (`llama_split_path` of llama.cpp); the first one is loaded and finds the others.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TypeVar

AnyPath = TypeVar("AnyPath", bound=PurePath)

_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def parts(path: AnyPath) -> tuple[AnyPath, ...]:
    """All files of the model that `path` belongs to, the first one first; `path` alone when it is not split.

    By name and without following links: in a hub cache the name is the link's, and blobs are called by their hash.
    """
    match = _match(path)
    if match is None:
        return (path,)
    stem, count = match["stem"], int(match["count"])
    return tuple(path.with_name(f"{stem}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1))


def model_name(path: PurePath) -> str:
    """The file's stem without its place in a split."""
    match = _match(path)
    return match["stem"] if match else path.stem


def _match(path: PurePath) -> re.Match[str] | None:
    """None also for a name that is no place in any split, such as the fourth of three."""
    match = _NAME.fullmatch(path.name)
    return match if match and 1 <= int(match["number"]) <= int(match["count"]) else None
