"""Where may be written, and what is in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from homespec.config import Settings
from homespec.doctor.check import Verdict
from homespec.doctor.folders import Access, check_folders, obstacle


def closing(path: Path, mode: int) -> Access:
    """Access to everything but `path`, for which `mode` is refused; the tests may run as root."""
    return lambda each, asked: not (each == path and asked == mode)


def test_a_folder_that_can_be_made_has_no_obstacle(tmp_path: Path) -> None:
    assert obstacle(tmp_path / "a" / "b", closing(Path("/nowhere"), os.W_OK)) is None


def test_the_first_part_of_the_path_that_is_closed_is_named(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert obstacle(inner, closing(tmp_path / "a", os.X_OK)) == f"{tmp_path}/a does not let this user in"
    assert obstacle(inner, closing(inner, os.W_OK)) == f"{inner} cannot be written by this user"
    assert obstacle(inner / "c", closing(inner, os.W_OK)) == f"{inner} cannot be written by this user"


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert obstacle(tmp_path / "file", closing(Path("/nowhere"), os.W_OK)) == f"{tmp_path}/file is not a folder"


def test_what_is_configured_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    settings = Settings.model_construct(models_dir=tmp_path / "m", past_outputs_file=tmp_path / "p" / "answers")
    found = {check.name: check for check in check_folders(settings, closing(tmp_path, os.W_OK))}
    assert {name: check.verdict for name, check in found.items()} == {
        "models folder": Verdict.WARN,
        "cache folder": Verdict.WARN,
        "past answers": Verdict.FAIL,
    }
    assert all(f"{tmp_path} cannot be written" in check.text for check in found.values())
    found = {check.name: check for check in check_folders(settings, closing(Path("/nowhere"), os.W_OK))}
    assert {check.verdict for check in found.values()} == {Verdict.OK}


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("homespec.store.places.data_folder", "homespec.doctor.folders.cache_folder"):
        monkeypatch.setattr(name, lambda: None)
    found = list(check_folders(Settings.model_construct()))
    assert [check.verdict for check in found] == [Verdict.WARN, Verdict.WARN]
    assert all("no home folder" in check.text for check in found)
