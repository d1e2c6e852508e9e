"""A user without a home, as systemd's dynamic users are: what is named works, the rest says what is missing."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from homespec.config import Settings, load
from homespec.config.sources import default_config_path
from homespec.engine.verdicts import Verdicts
from homespec.errors import ConfigError
from homespec.folders import cache_folder
from homespec.store.finds import find_all
from homespec.store.model_file import find
from homespec.store.places import models_dir


def _no_entry(uid: int) -> NoReturn:
    raise KeyError(uid)


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    systemd = ("STATE_DIRECTORY", "CACHE_DIRECTORY", "CONFIGURATION_DIRECTORY")
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", *systemd):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", _no_entry)


def test_what_is_named_works(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("slots = 5")
    assert load({}, path).slots == 5
    assert load({}).slots == Settings.model_fields["slots"].default
    assert models_dir(tmp_path) == tmp_path
    assert find(str(path)) == path


def test_what_is_not_there_is_left_out() -> None:
    find_all()
    assert find("nothing") == Path.cwd() / "nothing"
    Verdicts()


def test_what_needs_a_home_says_so() -> None:
    with pytest.raises(ConfigError, match="models_dir, HOME or XDG_DATA_HOME"):
        models_dir()
    with pytest.raises(ConfigError, match="--config"):
        default_config_path()


def test_what_systemd_gives_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """StateDirectory= and its siblings in a unit; the first of several is the unit's own."""
    folders = {name: tmp_path / name for name in ("STATE", "CACHE", "CONFIGURATION")}
    for name, folder in folders.items():
        monkeypatch.setenv(f"{name}_DIRECTORY", f"{folder}:/elsewhere")
    monkeypatch.setenv("HOME", "/nowhere")
    assert models_dir() == folders["STATE"] / "models"
    assert models_dir(tmp_path) == tmp_path
    assert default_config_path() == folders["CONFIGURATION"] / "config.toml"
    assert cache_folder() == folders["CACHE"]
    monkeypatch.setenv("STATE_DIRECTORY", "")
    assert models_dir().is_relative_to("/nowhere")


@pytest.mark.parametrize("variable", ["XDG_DATA_HOME", "HOME"])
def test_either_variable_is_enough(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, str(tmp_path))
    assert models_dir().is_relative_to(tmp_path)
