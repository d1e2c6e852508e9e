"""Where settings come from: the profile, the file, the environment, the command line. Read, not yet judged."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from homespec.errors import ConfigError
from homespec.folders import config_folder, denial
from homespec.profiles.box import detect
from homespec.profiles.profile import AUTO, OFF, Profile, named, pick

ENV_PREFIX = "HOMESPEC_"
_OTHER_VARIABLES = frozenset({"HOMESPEC_CONFIG", "HOMESPEC_URL"})
"""Read by other parts of homespec, not settings of the daemon."""


class Layer(StrEnum):
    """From the lowest to the highest: a later one wins."""

    DEFAULT = "default"
    PROFILE = "profile"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Origin:
    """Which layer a value is from, and where in it."""

    layer: Layer
    where: str | None = None
    """The profile's name, the file's path, the variable or the flag; None for a default."""
    reason: str | None = None
    """The profile's."""

    def __str__(self) -> str:
        return f"{' '.join(filter(None, (self.layer, self.where)))}{f': {self.reason}' if self.reason else ''}"


@dataclass(frozen=True, slots=True)
class Sources:
    """All layers above the defaults, by key."""

    flags: Mapping[str, Any]
    environment: Mapping[str, str]
    """Variables by their names in capitals: the case of a variable does not matter."""
    file: Mapping[str, Any]
    path: Path | None
    """The configuration file, there or not; None for a user without a home."""
    profile: Profile | None

    def given(self) -> dict[str, Any]:
        """What the profile, the file and the flags say and the environment does not overrule."""
        below = {**(self.profile.values() if self.profile else {}), **self.file}
        return {**{key: value for key, value in below.items() if variable(key) not in self.environment}, **self.flags}

    def origin(self, key: str) -> Origin:
        if key in self.flags:
            return Origin(Layer.FLAG, f"--{key.replace('_', '-')}")
        if variable(key) in self.environment:
            return Origin(Layer.ENVIRONMENT, variable(key))
        if key in self.file:
            return Origin(Layer.FILE, str(self.path))
        if self.profile and (reason := self.profile.reason(key)):
            return Origin(Layer.PROFILE, self.profile.name, reason)
        return Origin(Layer.DEFAULT)


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return ENV_PREFIX + key.upper()


def default_config_path() -> Path:
    """Raises ConfigError when this user has no home to hold one."""
    folder = config_folder()
    if folder is None:
        raise ConfigError("there is no home folder for a configuration; pass --config, or set HOME")
    return folder / "config.toml"


def read_sources(flags: Mapping[str, Any], config_file: Path | None, known: Collection[str]) -> Sources:
    """Raises ConfigError for a file that cannot be read, and for keys and variables that are not `known`."""
    environment = {name.upper(): value for name, value in os.environ.items()}
    path, values = _read_file(config_file)
    _check_keys(values, path, known)
    _check_variables(known)
    return Sources(flags, environment, values, path, _profile(flags, environment, values))


def _profile(flags: Mapping[str, Any], environment: Mapping[str, str], values: Mapping[str, Any]) -> Profile | None:
    """The profile that the layers above it ask for. `auto` on a box of no known kind is none."""
    name = str(flags.get("profile") or environment.get(variable("profile")) or values.get("profile") or OFF)
    if name == OFF:
        return None
    return pick(detect()) if name == AUTO else named(name)


def _read_file(config_file: Path | None) -> tuple[Path | None, dict[str, Any]]:
    from_environment = os.environ.get("HOMESPEC_CONFIG")
    asked = config_file or (Path(from_environment) if from_environment else None)
    try:
        path = asked or default_config_path()
    except ConfigError:  # a dynamic user has no home, and needs none
        return None, {}
    try:
        return path, tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        if asked is None:
            return path, {}
        raise ConfigError(f"config file {path} does not exist; check --config or HOMESPEC_CONFIG") from error
    except OSError as error:
        raise ConfigError(f"config file {path} cannot be read: {denial(error, path)}; check its permissions") from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"config file {path} is not text in UTF-8, at byte {error.start}; save it as UTF-8"
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"config file {path} is not valid TOML: {error}") from error


def _check_keys(values: Mapping[str, Any], path: Path | None, known: Collection[str]) -> None:
    for key in values:
        if key not in known:
            raise ConfigError(f"unknown key {key!r} in {path}{nearest(key, known)}")
        if key == "api_key":
            raise ConfigError(f"api_key in {path}: put it in HOMESPEC_API_KEY or in a file named by api_key_file")


def _check_variables(known: Collection[str]) -> None:
    names = {variable(key) for key in known} | _OTHER_VARIABLES
    for name in os.environ:
        if name.upper().startswith(ENV_PREFIX) and name.upper() not in names:
            raise ConfigError(f"unknown environment variable {name}{nearest(name.upper(), names)}")


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a complaint about an unknown name."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else "; see docs/configuration.md for the known ones"
