"""The configuration: can it be read, is every key known, and which layers say something."""

from __future__ import annotations

from pathlib import Path

from homespec.config import Layers, Settings, load_layers
from homespec.config.sources import Layer
from homespec.doctor.check import Check, of_error, ok
from homespec.errors import HomespecError


def examine_configuration(config_file: Path | None) -> tuple[Settings, Check]:
    """The settings in effect, the defaults where they cannot be had, and the check."""
    try:
        layers = load_layers({}, config_file)
    except HomespecError as error:
        return Settings.model_construct(), of_error("configuration", error, "see docs/configuration.md")
    return layers.settings, ok("configuration", describe(layers))


def describe(layers: Layers) -> str:
    """Files and names, never values: those of the environment may be keys."""
    sources = layers.sources
    if sources.path is None:
        parts = ["no home folder for a file"]
    else:
        parts = [f"file {sources.path}" if sources.file else f"nothing in {sources.path}"]
    if sources.profile is not None:
        parts.append(f"profile {sources.profile.name}")
    variables = [str(origin.where) for origin in layers.origins.values() if origin.layer is Layer.ENVIRONMENT]
    if variables:
        parts.append(f"environment {', '.join(variables)}")
    return "; ".join(parts)
