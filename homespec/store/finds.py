"""Model files in the stores of this machine: where they are and what they are called there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from homespec.errors import ConfigError
from homespec.split import model_name, parts
from homespec.store.places import hub_caches, lm_studio_folders, models_dir, ollama_folders

OWN = "homespec"
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
_OLLAMA_LIBRARY = ("registry.ollama.ai", "library")
"""Left out of the names, as Ollama does."""


@dataclass(frozen=True, slots=True)
class Find:
    """One model of a store; of a split one, the first file."""

    name: str
    store: str
    path: Path
    """The link where a store has links: the name is the link's."""
    expected_bytes: int | None = None
    """Size that the store's own books give; None where it keeps none."""


def find_all(own: Path | None = None) -> tuple[Find, ...]:
    """Every model of every store, homespec's own first; each file once. What cannot be read is left out."""
    seen: set[Path] = set()
    kept = []
    for found in _everything(own):
        real = Path(os.path.realpath(found.path))
        if real not in seen:
            seen.add(real)
            kept.append(found)
    return tuple(kept)


def find_own(own: Path | None = None) -> tuple[Find, ...]:
    """Every model of homespec's own store."""
    with suppress(ConfigError):  # a user without a home has no store of their own
        return tuple(_in_folder(models_dir(own), OWN))
    return ()


def _everything(own: Path | None) -> Iterator[Find]:
    yield from find_own(own)
    for cache in hub_caches():
        for repository in _children(cache, "models--*"):
            yield from _in_folder(repository / "snapshots", "Hugging Face")
    for folder in lm_studio_folders():
        yield from _in_folder(folder, "LM Studio")
    for folder in ollama_folders():
        yield from _in_ollama(folder)


def _in_folder(folder: Path, store: str) -> Iterator[Find]:
    """Links to folders are followed, each folder once: whole models are moved to another disk that way."""
    walked: set[str] = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = [] if real in walked else sorted(name for name in folders if not name.startswith("."))
        walked.add(real)
        for name in sorted(names):
            path = Path(place) / name
            if name.endswith(".gguf") and parts(path)[0] == path:
                yield Find(model_name(path), store, path)


def _in_ollama(folder: Path) -> Iterator[Find]:
    manifests = folder / "manifests"
    for place, _, names in os.walk(manifests):
        for tag in sorted(names):
            manifest = Path(place) / tag
            with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
                layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
                name = _ollama_name(manifest.relative_to(manifests))
                for layer in [each for each in layers if each["mediaType"] == _OLLAMA_MODEL][:1]:
                    blob = folder / "blobs" / layer["digest"].replace(":", "-")
                    yield Find(name, "Ollama", blob, int(layer["size"]))


def _ollama_name(manifest: Path) -> str:
    """`registry.ollama.ai/library/qwen3/4b` is called `qwen3:4b`."""
    *place, model, tag = manifest.parts
    prefix = place if tuple(place) != _OLLAMA_LIBRARY else []
    return "/".join([*prefix, f"{model}:{tag}"])


def _children(folder: Path, pattern: str) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.glob(pattern))
    return []
