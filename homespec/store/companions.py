"""Draft files that come with a model: its own, where that holds an MTP block, and the copies of `homespec derive`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from homespec.errors import ModelError, ModelNotFound
from homespec.fingerprint import fingerprint
from homespec.split import parts
from homespec.store.header import Header
from homespec.store.model_file import check_start
from homespec.store.shards import read_parts

SOURCE_KEY = "homespec.derived.source"
"""In a copy: what `source_mark` said of the model it was made of. Copies of earlier releases have none."""

_MARK = ".draft-"
_OUTDATED = (
    "was made of another file than the one that has the model's name now: make it again (homespec derive --force), or "
    "name it (--draft)"
)


@dataclass(frozen=True, slots=True)
class Companion:
    """A draft file that nobody has named."""

    path: Path
    unusable: str | None = None
    """Why it must not draft unless somebody names it; None when it may."""


class _Copy(NamedTuple):
    path: Path
    header: Header
    made_at: float
    """Unix time."""


def copy_path(model: Path, recipe: str) -> Path:
    """Where a copy lies that was made after `recipe`, a part of its name."""
    return model.with_name(f"{model.stem}{_MARK}{recipe}.gguf")


def source_mark(model: Path) -> str:
    """What tells this model from another one that gets its name. Raises ModelNotFound when it cannot be read."""
    try:
        prints = [fingerprint(part) for part in parts(model)]
    except OSError as error:
        raise ModelNotFound(f"{model} cannot be read: {error.strerror}; check its permissions") from error
    return prints[0] if len(prints) == 1 else hashlib.sha256("".join(prints).encode()).hexdigest()


def companions(model: Path) -> tuple[Companion, ...]:
    """What could draft for `model` without anybody naming it: its MTP block, then its copies, the newest first.

    Of two copies made in the same moment, by name. A broken one is left out. Raises ModelError for the model itself.
    """
    own = (Companion(model),) if _has_mtp_block(model) else ()
    copies = sorted(_copies(model), key=lambda copy: (-copy.made_at, copy.path.name))
    sources = {copy.path: copy.header.metadata.get(SOURCE_KEY) for copy in copies}
    mark = source_mark(model) if any(sources.values()) else None
    return (*own, *(Companion(path, _OUTDATED if of not in (None, mark) else None) for path, of in sources.items()))


def _has_mtp_block(model: Path) -> bool:
    headers = read_parts(model)
    metadata, architecture = headers[0].metadata, headers[0].architecture
    count = metadata.get(f"{architecture}.block_count")
    if not metadata.get(f"{architecture}.nextn_predict_layers") or not isinstance(count, int):
        return False
    name = f"blk.{count - 1}.nextn.eh_proj.weight"
    return any(tensor.name == name for header in headers for tensor in header.tensors)


def _copies(model: Path) -> Iterator[_Copy]:
    """Those that can be read; any of them may go while it is looked at."""
    with suppress(OSError):
        for name in os.listdir(model.parent):  # noqa: PTH208  # names alone: a folder of models may hold anything
            if name.startswith(f"{model.stem}{_MARK}") and name.endswith(".gguf"):
                with suppress(ModelError, OSError):
                    path = model.with_name(name)
                    check_start(path)
                    yield _Copy(path, read_parts(path)[0], path.stat().st_mtime)
