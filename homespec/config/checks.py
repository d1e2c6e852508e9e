"""What no key alone can tell: settings that contradict one another, or open a door that nobody asked to open."""

from __future__ import annotations

from homespec.config.settings import OF_A_MODEL, Settings
from homespec.config.sources import nearest
from homespec.errors import ConfigError


def check(settings: Settings) -> None:
    """Raises ConfigError in one line."""
    check_exposure(settings)
    if settings.past_outputs_file and not settings.past_outputs_mib:
        raise ConfigError(
            f"past_outputs_file {settings.past_outputs_file} is set and past_outputs_mib is 0: nothing would be kept; "
            "set past_outputs_mib, or leave the file out"
        )
    _check_marks(settings)
    _check_contradictions(settings)
    _check_models(settings)


def _check_models(settings: Settings) -> None:
    for name, table in settings.models.items():
        known = ("path", *OF_A_MODEL)
        for key in table:
            if key not in known:
                raise ConfigError(f"unknown key {key!r} in models.{name}{nearest(key, known)}")
        if not isinstance(path := table.get("path"), str):
            raise ConfigError(f"models.{name} has no path; write the path of a GGUF file, or its name in a store")
        given = {key: value for key, value in table.items() if key != "path"}
        _check_contradictions(settings.of_model(name, path, given))


def _check_contradictions(settings: Settings) -> None:
    if settings.flash_attention == "off" and settings.kv_type.startswith("q"):
        raise ConfigError(
            f"kv_type {settings.kv_type!r} needs flash attention, which flash_attention = 'off' forbids; "
            f"use kv_type 'f16', or flash_attention 'auto'"
        )


def check_exposure(settings: Settings) -> None:
    """Raise ConfigError when other machines could use the daemon without a key and nobody said that they may."""
    keys = settings.api_keys()
    if settings.api_key_file and not keys:
        raise ConfigError(f"api_key_file {settings.api_key_file} holds no key; write one per line, or leave it out")
    if not settings.loopback_only and not settings.insecure and not keys:
        raise ConfigError(
            f"host {settings.host!r} is reachable from other machines and no API key is set; set HOMESPEC_API_KEY or "
            f"api_key_file, or pass --insecure to serve everyone who can connect"
        )


def _check_marks(settings: Settings) -> None:
    low, high = settings.low_mark_mib, settings.high_mark_mib
    if low != "auto" and high != "auto" and low >= high:
        raise ConfigError(
            f"low_mark_mib {low} is not below high_mark_mib {high}; between the two a draft model stays as it is, so "
            f"leave some room"
        )
