"""Draft files that come with a model: its own, where that holds an MTP block, and the copies of `homespec derive`."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from homespec.errors import ModelError
from homespec.store.model_file import check
from homespec.store.shards import read_parts

_MARK = ".draft-"


def copy_path(model: Path, recipe: str) -> Path:
    """Where a copy lies that was made after `recipe`, a part of its name."""
    return model.with_name(f"{model.stem}{_MARK}{recipe}.gguf")


def companions(model: Path) -> tuple[Path, ...]:
    """What may draft for `model` without anybody naming it: its MTP block, then its copies, the newest first.

    Of two copies made in the same moment, by name. A broken one is left out. Raises ModelError for the model itself.
    """
    own = (model,) if _has_mtp_block(model) else ()
    return (*own, *sorted(_copies(model), key=lambda path: (-path.stat().st_mtime, path.name)))


def _has_mtp_block(model: Path) -> bool:
    headers = read_parts(model)
    metadata = headers[0].metadata
    if not metadata.get(f"{headers[0].architecture}.nextn_predict_layers"):
        return False
    last = int(metadata.get(f"{headers[0].architecture}.block_count", 0)) - 1
    return any(tensor.name == f"blk.{last}.nextn.eh_proj.weight" for header in headers for tensor in header.tensors)


def _copies(model: Path) -> list[Path]:
    found = []
    with suppress(OSError):
        for name in os.listdir(model.parent):  # noqa: PTH208  # names alone: a folder of models may hold anything
            if name.startswith(f"{model.stem}{_MARK}") and name.endswith(".gguf"):
                with suppress(ModelError):
                    check(model.with_name(name))
                    found.append(model.with_name(name))
    return found
