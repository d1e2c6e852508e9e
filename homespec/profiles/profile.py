"""A profile as it lies on disk, and which one suits a box; pure but for reading the files."""

from __future__ import annotations

import difflib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from homespec.errors import ConfigError
from homespec.profiles.box import Box
from homespec.units import GIB

OFF, AUTO = "off", "auto"
_SHORTFALL = 0.9
"""Boxes sold with 8 GB report a little less: firmware and graphics take theirs first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One setting."""

    key: str
    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A model on the hub, as `homespec pull` takes it."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    title: str
    device: str
    """cpu, nvidia, apple; hybrid is never picked by itself."""
    memory_gib: int
    """What the box is sold with: of the GPU where there is one, else of the machine."""
    settings: tuple[Choice, ...]
    targets: tuple[Suggestion, ...]
    drafters: tuple[Suggestion, ...]

    def values(self) -> dict[str, Any]:
        return {choice.key: choice.value for choice in self.settings}

    def reason(self, key: str) -> str | None:
        return next((choice.reason for choice in self.settings if choice.key == key), None)


@cache
def profiles() -> tuple[Profile, ...]:
    """All that ship, by device and size."""
    files = [file for file in resources.files("homespec.profiles").iterdir() if file.name.endswith(".toml")]
    read = [_read(file.name.removesuffix(".toml"), file.read_text(encoding="utf-8")) for file in files]
    return tuple(sorted(read, key=lambda profile: (profile.device, profile.memory_gib)))


def named(name: str) -> Profile:
    """Raises ConfigError with the nearest name."""
    by_name = {profile.name: profile for profile in profiles()}
    if name not in by_name:
        nearest = difflib.get_close_matches(name, by_name, n=1)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(by_name)}"
        raise ConfigError(f"unknown profile {name!r}; {hint}")
    return by_name[name]


def pick(box: Box) -> Profile | None:
    """The largest profile that the box is large enough for, else the smallest of its kind; None for an unknown box."""
    kind = [profile for profile in profiles() if profile.device == box.device]
    if not kind or box.memory_bytes is None:
        return None
    fitting = [profile for profile in kind if profile.memory_gib * GIB * _SHORTFALL <= box.memory_bytes]
    return fitting[-1] if fitting else kind[0]


def _read(name: str, text: str) -> Profile:
    data = tomllib.loads(text)
    return Profile(
        name=name,
        title=data["title"],
        device=data["device"],
        memory_gib=data["memory_gib"],
        settings=tuple(Choice(**each) for each in data["setting"]),
        targets=tuple(Suggestion(**each) for each in data["target"]),
        drafters=tuple(Suggestion(**each) for each in data.get("drafter", ())),
    )
