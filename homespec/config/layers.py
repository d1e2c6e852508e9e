"""Settings from all their layers: defaults, profile, file, HOMESPEC_* in the environment, flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from homespec.config.checks import check, check_exposure
from homespec.config.settings import Settings
from homespec.config.sources import Layer, Origin, Sources, read_sources
from homespec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Layers:
    """Everything that settings are made of, and where each value came from."""

    settings: Settings
    origins: dict[str, Origin]
    """By key."""
    sources: Sources


def load(flags: Mapping[str, Any], config_file: Path | None = None) -> Settings:
    """Merge all layers. `flags` holds only what was given on the command line.

    Raises ConfigError in one line: the key, the value, what is allowed, and where it was set.
    """
    return load_layers(flags, config_file).settings


def load_to_serve(flags: Mapping[str, Any], config_file: Path | None = None) -> Settings:
    """The same for who listens: other machines need a key, which the commands beside a service may not know.

    Raises ConfigError.
    """
    settings = load(flags, config_file)
    check_exposure(settings)
    return settings


def load_layers(flags: Mapping[str, Any], config_file: Path | None = None) -> Layers:
    """The same, with the origin of each value. Raises ConfigError."""
    sources = read_sources(flags, config_file, Settings.model_fields)
    try:
        settings = Settings(**sources.given())
    except ValidationError as error:
        raise ConfigError(_first_fault(error, sources)) from error
    check(settings)
    return Layers(settings, {key: sources.origin(key) for key in Settings.model_fields}, sources)


def _first_fault(error: ValidationError, sources: Sources) -> str:
    faults = error.errors(include_url=False)
    fault = faults[0]
    key = str(fault["loc"][0]) if fault["loc"] else "settings"
    origin = sources.origin(key)
    where = f"{key} in {origin.where}" if origin.layer in (Layer.FILE, Layer.PROFILE) else origin.where or key
    # A field of several types has one fault for each of them.
    messages = [each["msg"].removeprefix("Value error, ") for each in faults if each["loc"][:1] == fault["loc"][:1]]
    return f"{where} = {fault['input']!r}: {', or '.join(text[0].lower() + text[1:] for text in messages)}"
