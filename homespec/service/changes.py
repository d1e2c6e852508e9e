"""What a new configuration changes in a running daemon."""

from __future__ import annotations

from homespec.config import Settings, check_exposure

NEEDS_RESTART = ("host", "port")
"""Taken at start and kept: the sockets are bound before anything else."""


def following(old: Settings, new: Settings) -> Settings:
    """The new settings as far as a running daemon can follow them: its sockets stay as they are.

    Raises ConfigError when the new keys would leave those sockets open to everyone.
    """
    followed = new.model_copy(update={key: getattr(old, key) for key in NEEDS_RESTART})
    check_exposure(followed)
    return followed


def changed_keys(old: Settings, new: Settings) -> tuple[str, ...]:
    return tuple(key for key in Settings.model_fields if getattr(old, key) != getattr(new, key))


def describe(old: Settings, new: Settings, *, engine_restarts: bool) -> str:
    """One line: each changed key with both values, and what it takes. A key's text never shows: it is a secret type."""
    keys = changed_keys(old, new)
    if not keys and not engine_restarts:
        return "configuration read again: nothing changed"
    changes = [_change(key, old, new) for key in keys] or ["other draft files lie with the model"]
    engine = "; the engine starts anew" if engine_restarts else "; the target stays loaded"
    return f"configuration read again: {', '.join(changes)}{engine}"


def _change(key: str, old: Settings, new: Settings) -> str:
    text = f"{key} {getattr(old, key)} → {getattr(new, key)}"
    return f"{text} (takes a restart of the service)" if key in NEEDS_RESTART else text
