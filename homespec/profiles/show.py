"""`homespec profiles`: the list, and one of them with its reasons."""

from __future__ import annotations

from homespec.errors import ConfigError
from homespec.profiles.box import Box, detect
from homespec.profiles.profile import Profile, named, pick, profiles
from homespec.units import format_bytes


def run(action: str | None, name: str | None) -> str:
    """The text that the command prints. Raises ConfigError."""
    box = detect()
    if action is None:
        return as_list(box)
    if action != "show":
        raise ConfigError(f"unknown action {action!r}; write 'homespec profiles' or 'homespec profiles show NAME'")
    profile = named(name) if name else pick(box)
    if profile is None:
        raise ConfigError(f"no profile is for this box ({box.device}); name one that 'homespec profiles' lists")
    return as_page(profile)


def as_list(box: Box) -> str:
    """One line each; the one for this box is marked."""
    picked = pick(box)
    lines = [
        f"{'*' if profile == picked else ' '} {profile.name:10} {profile.title}: {_settings(profile)}"
        for profile in profiles()
    ]
    found = f"this box: {box.device}, {format_bytes(box.memory_bytes)}"
    use = f"use it with 'homespec serve --profile {picked.name}', or auto" if picked else "no profile is for it"
    return "\n".join([*lines, "", f"{found}; {use}"])


def as_page(profile: Profile) -> str:
    """Every value with its reason."""
    lines = [f"{profile.name}: {profile.title}", ""]
    lines += [f"{choice.key} = {choice.value}\n    {choice.reason}" for choice in profile.settings]
    for kind, suggestions in (("target", profile.targets), ("drafter", profile.drafters)):
        lines += [f"{kind}: homespec pull {each.model}\n    {each.reason}" for each in suggestions]
    if not profile.drafters:
        lines.append("drafter: the free ones; a draft model would not fit or not pay")
    return "\n".join(lines)


def _settings(profile: Profile) -> str:
    """Those that tell the classes apart at a glance."""
    shown = (choice for choice in profile.settings if choice.value != "auto" and not choice.key.endswith("_mark_mib"))
    return ", ".join(f"{choice.key} {choice.value}" for choice in shown)
