"""Which files of a hub repository are meant; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from homespec.errors import HubError
from homespec.split import model_name, parts

PREFERRED = ("Q4_K_M", "Q4_K_S", "IQ4_XS", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0")
"""Taken when no quantisation is named: the best known for its size first."""
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_NOT_A_MODEL = re.compile(r"mmproj|imatrix", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HubFile:
    path: str
    """Inside the repository."""
    size_bytes: int | None = None
    sha256: str | None = None
    """None for small files, which the hub does not keep as LFS objects."""


def parse(spec: str) -> tuple[str, str | None]:
    """`REPO[:QUANT|FILE]`: the repository and what is wanted of it. Raises HubError."""
    spec = spec.removeprefix("https://").removeprefix("huggingface.co/").removeprefix("hf.co/").rstrip("/")
    repository, _, wanted = spec.partition(":")
    if not _REPOSITORY.fullmatch(repository):
        raise HubError(f"{spec!r} is no repository; write OWNER/NAME, OWNER/NAME:QUANT or OWNER/NAME:FILE.gguf")
    return repository, wanted or None


def choose(repository: str, files: tuple[HubFile, ...], wanted: str | None) -> tuple[HubFile, ...]:
    """The files of one model, in order. Raises HubError with what there is when none or several fit."""
    models = _models(files)
    if not models:
        raise HubError(f"{repository} holds no .gguf file; look for a repository whose name ends in -GGUF")
    if wanted is None:
        return models[_preferred(repository, tuple(models))]
    if wanted.endswith(".gguf"):
        fitting = [key for key, members in models.items() if any(_is_named(each.path, wanted) for each in members)]
    else:
        fitting = [key for key in models if _has_word(key, wanted)]
    if len(fitting) != 1:
        found = "nothing" if not fitting else f"{len(fitting)} models"
        names = ", ".join(fitting or models)
        raise HubError(f"{repository} has {found} called {wanted!r}; name one of: {names}")
    return models[fitting[0]]


def _models(files: tuple[HubFile, ...]) -> dict[str, tuple[HubFile, ...]]:
    """Whole models by their name inside the repository, without the number of a split; one with a gap is left out."""
    by_path = {file.path: file for file in files}
    found = {}
    for file in sorted(files, key=lambda each: each.path):
        path = PurePosixPath(file.path)
        # A mirror may answer anything; what is fetched must stay below the repository's own folder.
        is_inside = not path.is_absolute() and ".." not in path.parts
        if path.suffix != ".gguf" or _NOT_A_MODEL.search(path.name) or not is_inside:
            continue
        members = [str(part) for part in parts(path)]
        if members[0] == file.path and all(member in by_path for member in members):
            found[str(path.with_name(model_name(path)))] = tuple(by_path[member] for member in members)
    return found


def _preferred(repository: str, names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
    for quant in PREFERRED:
        fitting = [name for name in names if _has_word(name, quant)]
        if len(fitting) == 1:
            return fitting[0]
    raise HubError(f"{repository} holds {len(names)} models; name one of: {', '.join(names)}")


def _has_word(name: str, word: str) -> bool:
    """Whether the file's name has the word in it, not as part of another: Q4_K is not Q4_K_M."""
    return re.search(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])", name, re.IGNORECASE) is not None


def _is_named(path: str, wanted: str) -> bool:
    return wanted in (path, PurePosixPath(path).name)
