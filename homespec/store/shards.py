"""Models in several files: which belong together, and whether they all are there.

Names are `NAME-00001-of-00003.gguf` (`llama_split_path` of llama.cpp); the first one is loaded and finds the others.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import TypeVar

from homespec.errors import ModelCorrupt, ModelNotFound
from homespec.store.header import Header, read_header

AnyPath = TypeVar("AnyPath", bound=PurePath)

_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


def parts(path: AnyPath) -> tuple[AnyPath, ...]:
    """All files of the model that `path` belongs to, the first one first; `path` alone when it is not split.

    By name and without following links: in a hub cache the name is the link's, and blobs are called by their hash.
    """
    match = _NAME.fullmatch(path.name)
    if match is None:
        return (path,)
    stem, count = match["stem"], int(match["count"])
    return tuple(path.with_name(f"{stem}-{number:05}-of-{count:05}.gguf") for number in range(1, count + 1))


def model_name(path: PurePath) -> str:
    """The file's stem without its place in a split."""
    match = _NAME.fullmatch(path.name)
    return match["stem"] if match else path.stem


def read_parts(path: Path) -> tuple[Header, ...]:
    """The headers of all parts, the first one first. Raises ModelNotFound or ModelCorrupt when one is missing, broken,
    or of another model.
    """
    paths = parts(path)
    _check_present(paths)
    headers = tuple(read_header(part) for part in paths)
    first = headers[0]
    if len(paths) == 1 and first.metadata.get("split.count", 0) in (0, 1):
        return headers
    _check_numbers(paths, headers)
    promised = first.metadata.get("split.tensors.count")
    found = sum(len(header.tensors) for header in headers)
    if promised is not None and found != promised:
        raise ModelCorrupt(
            f"{paths[0]} promises {promised} tensors in {len(paths)} files, they hold {found}; they are not of one "
            f"model, download all of them again"
        )
    return headers


def _check_present(paths: tuple[Path, ...]) -> None:
    missing = [path.name for path in paths if not path.exists()]
    if missing and len(paths) > 1:
        raise ModelNotFound(
            f"{paths[0].parent} lacks {', '.join(missing)} of a model in {len(paths)} files; download what is missing"
        )


def _check_numbers(paths: tuple[Path, ...], headers: tuple[Header, ...]) -> None:
    for index, (path, header) in enumerate(zip(paths, headers, strict=True)):
        number, count = header.metadata.get("split.no"), header.metadata.get("split.count")
        if (number, count) != (index, len(paths)):
            raise ModelCorrupt(
                f"{path} says that it is file {_from_one(number)} of {count}, its name says {index + 1} of "
                f"{len(paths)}; give it back its name, or download it again"
            )


def _from_one(number: object) -> object:
    return number + 1 if isinstance(number, int) else number
