"""Fetching models from the Hugging Face hub: what is there, is there room, fetch, compare, look into it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from homespec.errors import HubError, ModelCorrupt
from homespec.store.choice import HubFile, choose, parse
from homespec.store.model_file import check
from homespec.store.places import models_dir, size_at
from homespec.units import GIB, format_bytes

SPARE_BYTES = GIB // 2
"""Left free on the disk: a full one breaks more than a model."""
_DEFAULT_ENDPOINT = "https://huggingface.co"
_CHUNK_BYTES = 4 * 1024 * 1024

Say = Callable[[str], None]


def pull(spec: str, configured: Path | None, say: Say) -> Path:
    """Fetch `REPO[:QUANT|FILE]` into homespec's store; the model's first file. A stopped download goes on where it was.

    Raises HubError, or ModelCorrupt when what arrived is not what the hub promised.
    """
    # Read by the library when it is imported.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    repository, wanted = parse(spec)
    folder = models_dir(configured) / repository
    with _explained(repository, folder):
        revision, files = _list(repository)
    chosen = choose(repository, files, wanted)
    _check_room(folder, chosen)
    for file in chosen:
        say(f"{repository}/{file.path} ({format_bytes(file.size_bytes)}) → {folder}")
        with _explained(repository, folder):
            _fetch(repository, revision, file, folder)
            _compare(folder / file.path, file)
    first = folder / chosen[0].path
    check(first)
    return first


def endpoint() -> str:
    """The hub's address; HF_ENDPOINT names a mirror."""
    return (os.environ.get("HF_ENDPOINT") or _DEFAULT_ENDPOINT).rstrip("/")


def _list(repository: str) -> tuple[str | None, tuple[HubFile, ...]]:
    from huggingface_hub import HfApi

    info = HfApi(endpoint=endpoint()).model_info(repository, files_metadata=True)
    return info.sha, tuple(
        HubFile(each.rfilename, each.size, each.lfs.sha256 if each.lfs else None) for each in info.siblings or ()
    )


def _fetch(repository: str, revision: str | None, file: HubFile, folder: Path) -> None:
    from huggingface_hub import hf_hub_download

    hf_hub_download(repository, file.path, revision=revision, local_dir=folder, endpoint=endpoint())


def _check_room(folder: Path, files: tuple[HubFile, ...]) -> None:
    """Raise HubError unless what is still missing fits on the disk."""
    there = {file.path: size_at(folder / file.path) for file in files}
    missing = sum(max((file.size_bytes or 0) - there[file.path], 0) for file in files)
    partial = sum(size_at(path) for path in folder.glob(".cache/huggingface/download/**/*.incomplete"))
    place = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(place).free
    needed = max(missing - partial, 0)
    if needed and needed + SPARE_BYTES > free:
        raise HubError(
            f"{format_bytes(needed)} are missing and {place} has {format_bytes(free)} free, of which "
            f"{format_bytes(SPARE_BYTES)} must stay; make room, or set models_dir to a folder on another disk"
        )


def _compare(path: Path, file: HubFile) -> None:
    """Raise ModelCorrupt, and drop the file, when it is not the one that the hub keeps."""
    if file.sha256 is None:
        return
    digest = hashlib.sha256()
    with path.open("rb") as data:
        while chunk := data.read(_CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != file.sha256:
        path.unlink()
        raise ModelCorrupt(
            f"{path} arrived with SHA-256 {digest.hexdigest()[:12]}…, the hub promises {file.sha256[:12]}…; it is "
            f"deleted, pull it again"
        )


@contextmanager
def _explained(repository: str, folder: Path) -> Iterator[None]:
    """The library's errors as HubError, with what can be done."""
    from httpx2 import HTTPError
    from huggingface_hub import errors

    hub = endpoint()
    try:
        yield
    except errors.GatedRepoError as error:
        raise HubError(
            f"{repository} asks for consent: accept its terms at {hub}/{repository} and set HF_TOKEN"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            f"{repository} is not on {hub}, or is private; check the name, or set HF_TOKEN to a token that may read it"
        ) from error
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as error:
        raise HubError(_unreachable(hub, folder, "the library is offline or got no answer")) from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no status"
        raise HubError(f"{hub} answers {status} for {repository}; try again later") from error
    except HTTPError as error:
        raise HubError(_unreachable(hub, folder, str(error) or type(error).__name__)) from error
    except OSError as error:
        raise HubError(f"{repository} cannot be stored in {folder}: {error.strerror or error}") from error


def _unreachable(hub: str, folder: Path, why: str) -> str:
    return f"{hub} cannot be reached ({why}); check the network, or copy the .gguf file into {folder} by hand"
