"""The folders that are this program's own: what systemd gives to a service, else XDG's or the platform's below a home.

None for a user without a home, as dynamic users are. And paths: `~`, and which folder on the way cannot be entered.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

_NAME = "homespec"


def config_folder() -> Path | None:
    return _folder("CONFIGURATION_DIRECTORY", platformdirs.user_config_path)


def data_folder() -> Path | None:
    return _folder("STATE_DIRECTORY", platformdirs.user_data_path)


def cache_folder() -> Path | None:
    return _folder("CACHE_DIRECTORY", platformdirs.user_cache_path)


def _folder(variable: str, otherwise: Callable[[str], Path]) -> Path | None:
    """The first folder of the unit's (systemd.exec(5): several are separated by colons), else the platform's."""
    if given := os.environ.get(variable, "").partition(":")[0]:
        return Path(given)
    try:
        return otherwise(_NAME)
    except RuntimeError:
        return None


def expanded(path: str | Path) -> Path:
    """The path with `~` filled in. Where there is no such home (a service without one) it stays, and leads nowhere."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  # Path.expanduser raises there


def first_closed(path: Path, is_open: Callable[[Path], bool] = lambda folder: os.access(folder, os.X_OK)) -> Path:
    """The first folder on the way that this process may not enter, else the path itself."""
    return next((folder for folder in reversed(path.parents) if not is_open(folder)), path)


def denial(error: OSError, path: Path) -> str:
    """What the system says against `path`, and where on the way to it access is denied."""
    where = f" at {first_closed(path.absolute())}" if isinstance(error, PermissionError) else ""
    return f"{error.strerror}{where}"
