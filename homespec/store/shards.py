"""The headers of a model in several files, read together, and whether all of them are there."""

from __future__ import annotations

from pathlib import Path

from homespec.errors import ModelCorrupt, ModelNotFound
from homespec.split import parts
from homespec.store.header import Header, read_header

_MOST_NAMED = 3


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
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        raise ModelNotFound(
            f"{paths[0].parent} lacks {', '.join(missing[:_MOST_NAMED])}{more} of a model in {len(paths)} files; "
            f"download what is missing"
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
