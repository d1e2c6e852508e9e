"""Taking a model out of homespec's own store."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from homespec.errors import ModelNotFound
from homespec.split import parts
from homespec.store.finds import OWN, find_all
from homespec.store.places import models_dir


def remove(name: str, configured: Path | None = None) -> tuple[Path, ...]:
    """Delete all files of the model; which ones. Raises ModelNotFound, also for another program's models."""
    own = models_dir(configured)
    found = [each for each in find_all(own) if each.name == name]
    ours = [each for each in found if each.store == OWN]
    if not ours:
        if found:
            raise ModelNotFound(f"{name} belongs to {found[0].store} ({found[0].path}); remove it there")
        raise ModelNotFound(f"there is no model {name!r} in {own}; 'homespec models' lists what there is")
    removed = [part for each in ours for part in parts(each.path)]
    try:
        for part in removed:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ModelNotFound(f"{part} cannot be removed: {error.strerror}; check its permissions") from error
    for each in ours:
        _tidy(each.path.parent, own)
    return tuple(removed)


def _tidy(folder: Path, own: Path) -> None:
    """Take away folders that hold no model any more, with the download library's notes about them."""
    with suppress(OSError):  # another model of the same name may have had the same folder, which is gone by now
        while folder != own and folder.is_relative_to(own) and not any(folder.rglob("*.gguf")):
            if any(child.name != ".cache" for child in folder.iterdir()):
                return
            shutil.rmtree(folder)
            folder = folder.parent
