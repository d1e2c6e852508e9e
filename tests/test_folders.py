"""Folders of this program's own, and what is in the way to a file."""

from __future__ import annotations

from errno import EACCES, ENOSPC
from pathlib import Path

import pytest

from homespec.folders import denial, first_closed


def test_the_folder_that_denies_access_is_named() -> None:
    path = Path("/srv/models/qwen/x.gguf")
    assert first_closed(path, lambda folder: "models" not in folder.parts) == Path("/srv/models")
    assert first_closed(path, lambda folder: True) == path


def test_a_denial_says_where_and_another_fault_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda folder, _: "models" not in folder.parts)
    path = Path("/srv/models/qwen/x.gguf")
    assert denial(PermissionError(EACCES, "Permission denied"), path) == "Permission denied at /srv/models"
    assert denial(OSError(ENOSPC, "No space left on device"), path) == "No space left on device"
