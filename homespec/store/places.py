"""Where models lie: homespec's own folder, and the folders of programs that keep models as well."""

from __future__ import annotations

import os
from pathlib import Path

from homespec.errors import ConfigError
from homespec.folders import data_folder, expanded


def models_dir(configured: Path | None = None) -> Path:
    """homespec's own: the setting, else below the folder that systemd or the platform keeps for data.

    Raises ConfigError when this user has no home to hold one.
    """
    if configured is not None:
        return expanded(str(configured)).absolute()
    folder = data_folder()
    if folder is None:
        raise ConfigError("there is no home folder for models; set models_dir, HOME or XDG_DATA_HOME")
    return folder / "models"


def hub_caches() -> tuple[Path, ...]:
    """The Hugging Face cache, by the variables that its own library reads."""
    if cache := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return (expanded(os.path.expandvars(cache)),)
    if home := os.environ.get("HF_HOME"):
        return (expanded(os.path.expandvars(home)) / "hub",)
    return (_cache_home() / "huggingface" / "hub",)


def lm_studio_folders() -> tuple[Path, ...]:
    return (expanded("~/.lmstudio/models"), expanded("~/.cache/lm-studio/models"))


def ollama_folders() -> tuple[Path, ...]:
    """Of the user, and of the service that its installer sets up."""
    if folder := os.environ.get("OLLAMA_MODELS"):
        return (Path(folder),)
    service = Path("/usr/share/ollama/.ollama/models")
    return (expanded("~/.ollama/models"), service)


def size_at(path: Path) -> int:
    """Bytes of a file; 0 where none can be seen."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _cache_home() -> Path:
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
