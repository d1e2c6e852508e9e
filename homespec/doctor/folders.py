"""The folders that homespec writes to: may it, and if not, which part of the path is in the way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from homespec.config import Settings
from homespec.doctor.check import Check, fail, ok, warn
from homespec.errors import ConfigError
from homespec.folders import cache_folder, first_closed
from homespec.store.places import models_dir

Access = Callable[[Path, int], bool]


def store_folder(settings: Settings) -> Path | None:
    """Where models are pulled to; None for a user without a home."""
    try:
        return models_dir(settings.models_dir)
    except ConfigError:
        return None


def obstacle(folder: Path, access: Access = os.access) -> str | None:
    """Why nothing can be written there; None when it can, or when the folder can be made."""
    closed = first_closed(folder / "x", lambda each: not each.exists() or access(each, os.X_OK))
    if closed != folder / "x":
        return f"{closed} does not let this user in"
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
    return None if access(nearest, os.W_OK) else f"{nearest} cannot be written by this user"


def check_folders(settings: Settings, access: Access = os.access) -> Iterator[Check]:
    store = store_folder(settings)
    if store is None:
        yield warn("models folder", "this user has no home folder", "set models_dir, HOME or XDG_DATA_HOME")
    elif reason := obstacle(store, access):
        yield warn("models folder", f"{store}: {reason}", "set models_dir to a folder that this user may write")
    else:
        yield ok("models folder", str(store))
    cache = cache_folder()
    reason = "this user has no home folder" if cache is None else obstacle(cache, access)
    if reason:
        yield warn(
            "cache folder",
            f"{cache}: {reason}; costs and exactness are measured anew at every start",
            "make it writable, or set XDG_CACHE_HOME",
        )
    else:
        yield ok("cache folder", str(cache))
    if settings.past_outputs_file is not None:
        file = settings.past_outputs_file
        if reason := obstacle(file.parent, access):
            yield fail("past answers", f"{file}: {reason}", "set past_outputs_file to a place that can be written")
        else:
            yield ok("past answers", str(file))
